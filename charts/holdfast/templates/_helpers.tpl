{{/* Labels of every object in this chart, except those whose labels rbac.py sets. */}}
{{- define "holdfast.labels" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Labels by which the Deployment and both Services select the operator's pods. */}}
{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/component: operator
{{- end }}

{{- define "holdfast.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* A container without privileges and with a read-only root file system. */}}
{{- define "holdfast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Without runAsGroup the kubelet starts a user that the image's /etc/passwd does not list with group 0. */}}
{{- define "holdfast.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.podSecurityContext }}
{{ toYaml . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* A schema cannot compare two values. */}}
{{- define "holdfast.checkPorts" -}}
{{- $ports := list (int .Values.progress.port) (int .Values.health.port) (int .Values.metrics.port) }}
{{- if ne (len (uniq $ports)) 3 }}
{{- fail (printf "progress.port, health.port and metrics.port are %d, %d and %d: three different ports are needed, because one operator listens on all of them" (index $ports 0) (index $ports 1) (index $ports 2)) }}
{{- end }}
{{- end }}
