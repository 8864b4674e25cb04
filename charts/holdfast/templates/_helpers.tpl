{{/* Labels of everything in this chart, but for what rbac.py names itself. */}}
{{- define "holdfast.labels" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* What the Deployment and both Services agree on. */}}
{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/component: operator
{{- end }}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* A container that may do nothing but compute and talk. */}}
{{- define "holdfast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "holdfast.podSecurity" -}}
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}
