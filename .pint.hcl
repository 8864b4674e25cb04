rule {
  match {
    kind = "alerting"
  }
  annotation "summary" {
    severity = "bug"
    required = true
  }
  annotation "description" {
    severity = "bug"
    required = true
  }
  annotation "runbook_url" {
    severity = "bug"
    value    = "RUNBOOKS/{{ $alert }}.md"
    required = true
  }
  label "severity" {
    severity = "bug"
    value    = "critical|warning|info"
    required = true
  }
}
