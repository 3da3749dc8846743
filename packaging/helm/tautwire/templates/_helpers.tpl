{{- define "tautwire.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tautwire.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "tautwire.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tautwire.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tautwire.selector" -}}
app.kubernetes.io/name: {{ include "tautwire.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tautwire.labels" -}}
{{ include "tautwire.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* The port names of the service: with TLS the TLS ports, without TLS the others. */}}
{{- define "tautwire.ports" -}}
{{- $ports := list -}}
{{- $of := ternary (dict "mqtts" .Values.service.mqtts "websocket-tls" .Values.service.websocketTls) (dict "mqtt" .Values.service.mqtt "websocket" .Values.service.websocket) (ne .Values.tls.secret "") -}}
{{- range $name, $port := $of -}}
{{- if gt (int $port) 0 -}}
{{- $ports = append $ports (dict "name" $name "port" (int $port)) -}}
{{- end -}}
{{- end -}}
{{- dict "ports" $ports | toJson -}}
{{- end -}}

{{/* The container port of each of them. */}}
{{- define "tautwire.containerPort" -}}
{{- get (dict "mqtt" 1883 "mqtts" 8883 "websocket" 8083 "websocket-tls" 8084) . -}}
{{- end -}}

{{- define "tautwire.scheme" -}}
{{- get (dict "mqtt" "mqtt" "mqtts" "mqtts" "websocket" "ws" "websocket-tls" "wss") . -}}
{{- end -}}

{{/* Volumes mounted below /etc/tautwire, by directory name. Without subPath, because such mounts are never updated. */}}
{{- define "tautwire.secrets" -}}
{{- $mounts := dict -}}
{{- with .Values.users.secret -}}{{- $_ := set $mounts "users" (dict "secret" (dict "secretName" . "defaultMode" 288)) -}}{{- end -}}
{{- with .Values.tls.secret -}}{{- $_ := set $mounts "tls" (dict "secret" (dict "secretName" . "defaultMode" 288)) -}}{{- end -}}
{{- with .Values.tls.clientCaSecret -}}{{- $_ := set $mounts "client-ca" (dict "secret" (dict "secretName" . "defaultMode" 288)) -}}{{- end -}}
{{- with .Values.admin.tokenSecret -}}{{- $_ := set $mounts "admin" (dict "secret" (dict "secretName" . "defaultMode" 288)) -}}{{- end -}}
{{- if .Values.cluster.servers -}}
{{- with .Values.cluster.credentialsSecret -}}{{- $_ := set $mounts "nats" (dict "secret" (dict "secretName" . "defaultMode" 288)) -}}{{- end -}}
{{- with .Values.cluster.caSecret -}}{{- $_ := set $mounts "nats-ca" (dict "secret" (dict "secretName" . "defaultMode" 288)) -}}{{- end -}}
{{- end -}}
{{- with .Values.acl.configMap -}}{{- $_ := set $mounts "acl" (dict "configMap" (dict "name" .)) -}}{{- end -}}
{{- $mounts | toJson -}}
{{- end -}}

{{/* A probe: of the admin API if it is on, otherwise of the MQTT port. */}}
{{- define "tautwire.probe" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.admin.tokenSecret -}}
httpGet:
  path: {{ index . 1 }}
  port: admin
{{- else -}}
tcpSocket:
  port: {{ index . 2 }}
{{- end -}}
{{- end -}}

{{/* Splits `config` into the keys before its first table, and the tables: in TOML, keys after a table header belong to the table. */}}
{{- define "tautwire.config" -}}
{{- $keys := list -}}
{{- $tables := list -}}
{{- range (splitList "\n" .Values.config) -}}
{{- if or $tables (regexMatch "^\\s*\\[\\[?[A-Za-z_][A-Za-z0-9_.-]*\\]\\]?\\s*(#.*)?$" .) -}}
{{- $tables = append $tables . -}}
{{- else -}}
{{- $keys = append $keys . -}}
{{- end -}}
{{- end -}}
{{- dict "keys" (join "\n" $keys | trim) "tables" (join "\n" $tables | trim) | toJson -}}
{{- end -}}
