{{- define "controller.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 58 | trimSuffix "-" }}
{{- end }}

{{/* A pod's name is a label of its own, of at most 63 characters; its ordinal has up to four. */}}
{{- define "controller.fullname" -}}
{{- $name := include "controller.name" . }}
{{- $together := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $together | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "controller.selector" -}}
app.kubernetes.io/name: {{ include "controller.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "controller.labels" -}}
{{ include "controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "controller.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* NAME://host:port,… as brokers and clients reach this pod. */}}
{{- define "controller.advertised" -}}
{{- $host := printf "$(POD_NAME).%s.$(POD_NAMESPACE).svc" (include "controller.fullname" .) }}
{{- range $index, $listener := .Values.listeners }}
{{- if $index }},{{ end }}
{{- .name }}://{{ .advertisedHost | default $host }}:{{ .advertisedPort | default .port }}
{{- end }}
{{- end }}

{{- define "controller.bound" -}}
{{- range $index, $listener := .Values.listeners }}
{{- if $index }},{{ end }}
{{- .name }}://:{{ .port }}
{{- end }}
{{- end }}

{{/* A value as it stands in a properties file: numbers without an exponent, and nothing that Java would read otherwise. */}}
{{- define "controller.property" -}}
{{- $text := kindIs "float64" . | ternary (int64 . | toString) (toString .) }}
{{- $text | replace "\\" "\\\\" | replace "\n" "\\n" }}
{{- end }}

{{- define "controller.scheme" -}}
{{ .Values.http.webConfigSecret | empty | ternary "HTTP" "HTTPS" }}
{{- end }}
