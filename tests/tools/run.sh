#!/usr/bin/env bash
# Real grpcurl and real buf curl against a real server, over TCP and over its Unix socket, by reflection alone: list,
# describe, call, stream. Run by `make test-tools`, which brings both; docs/DEBUGGING.md shows the commands to people.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

: "${GRPCURL:?the path of grpcurl}" "${BUF:?the path of buf}"
contextstore=${CONTEXTSTORE_BIN:-target/debug/contextstore}
# What is set for the tests would be taken for settings of the server.
unset "${!CONTEXTSTORE_@}"
# Seconds after which something is given up on; on an idle machine it is there in milliseconds.
deadline=60
service=contextstore.v1.ContextStore
# Health is open to everybody, reflection is not: who has no token needs the protos.
plain_protos=clients/typescript/proto

buf_curl=("$BUF" curl --timeout "${deadline}s" --protocol grpc --http2-prior-knowledge)

work=$(mktemp -d)
server=
finish() {
  if [[ -n "$server" ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

passed=0
failed=0

# Runs a command; sets `output` (without white space, so that both tools print alike) and `status`.
run() {
  status=0
  output=$("$@" 2>&1 </dev/null) || status=$?
  output=${output//[[:space:]]/}
}

verdict() { # NAME WHY: passed if there is no reason why not
  if [[ -z "$2" ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s: %s\n  status %s: %s\n' "$1" "$2" "$status" "$output" >&2
  fi
}

# NAME TEXT... -- COMMAND...: the command succeeds, and prints every text.
answers() { expect 0 "$@"; }
# NAME TEXT... -- COMMAND...: the command fails, and prints every text.
refused() { expect 1 "$@"; }

expect() {
  local fails=$1 name=$2 texts=() why=''
  shift 2
  while [[ "$1" != -- ]]; do
    texts+=("${1//[[:space:]]/}")
    shift
  done
  shift
  run "$@"
  if (((status != 0) != fails)); then
    why='the exit status is wrong'
  fi
  for text in "${texts[@]}"; do
    [[ "$output" == *"$text"* ]] || why="does not print $text"
  done
  verdict "$name" "$why"
}

# The value of a string field in the last output.
field() {
  local rest=${output#*\"$1\":\"}
  printf '%s' "${rest%%\"*}"
}

base64_of() { printf '%s' "$1" | base64 --wrap 0; }

start_server() {
  "$contextstore" serve --data-dir "$work/data" --listen "unix:$work/data/contextstore.sock" \
    --listen tcp:127.0.0.1:0 2>"$work/log" &
  server=$!
  local end=$((SECONDS + deadline))
  while ((SECONDS < end)); do
    kill -0 "$server" 2>/dev/null || break
    # The server writes down where it listens once it does.
    address=$(sed -n 's/^tcp://p' "$work/data/addresses" 2>/dev/null || true)
    if [[ -n "$address" ]] && health "$address" >/dev/null 2>&1; then
      return 0
    fi
    sleep 0.05
  done
  echo "the server does not serve:" >&2
  cat "$work/log" >&2
  exit 1
}

health() { # ADDRESS, without a token
  "$GRPCURL" -plaintext -max-time "$deadline" -import-path "$plain_protos" -proto grpc/health/v1/health.proto \
    "$1" grpc.health.v1.Health/Check
}

# TRANSPORT METHOD REQUEST [FLAG...]: a call by reflection.
grpcurl_call() { grpcurl_on "$1" "$service/$2" -d "$3" "${@:4}"; }

# TRANSPORT WHAT [FLAG...]: `list`, `describe NAME` or a method, with flags before it.
grpcurl_on() {
  local words
  read -ra words <<<"$2"
  case "$1" in
  tcp) "$GRPCURL" -plaintext -max-time "$deadline" -H "authorization: Bearer $token" "${@:3}" "$address" "${words[@]}" ;;
  # The authority is for older versions, which would send the path.
  unix) "$GRPCURL" -plaintext -max-time "$deadline" -unix -authority localhost "${@:3}" "$socket" "${words[@]}" ;;
  esac
}

# TRANSPORT METHOD REQUEST [FLAG...]
buf_call() { buf_on "$1" "/$service/$2" --data "$3" "${@:4}"; }

# TRANSPORT PATH [FLAG...]
buf_on() {
  case "$1" in
  tcp)
    "${buf_curl[@]}" --header "authorization: Bearer $token" \
      --reflect-header '*' "${@:3}" "http://$address$2"
    ;;
  unix) "${buf_curl[@]}" --unix-socket "$socket" "${@:3}" "http://localhost$2" ;;
  esac
}

# The story of one task, told with one tool over one transport.
story() {
  local tool=$1 transport=$2 call="${1}_call" at="$1 over $2" uuid lease one two
  answers "$at: start" '"created":true' '"status":"TASK_STATUS_RUNNING"' -- \
    "$call" "$transport" StartTask "{\"user\":\"$at\",\"holder\":{\"instanceId\":\"$tool-$transport\"}}"
  uuid=$(field uuid)
  lease=$(field leaseGeneration)
  local task="\"taskUuid\":\"$uuid\",\"leaseGeneration\":\"$lease\""

  answers "$at: append" '"seq":"1"' '"pressure"' -- \
    "$call" "$transport" AppendMessage \
    "{$task,\"message\":{\"json\":\"{\\\"role\\\":\\\"user\\\",\\\"content\\\":\\\"hello\\\"}\"}}"

  one="{$task,\"messages\":[{\"fields\":{\"role\":\"ROLE_ASSISTANT\",\"content\":\"one\"}}]}"
  two="{$task,\"messages\":[{\"fields\":{\"role\":\"ROLE_USER\",\"content\":\"two\"}}]}"
  answers "$at: append over a bidirectional stream" '"seq":"2"' '"seq":"3"' -- \
    "$call" "$transport" AppendMessages "$one $two"

  local view='{"role":"user","content":"hello"}
{"role":"assistant","content":"one"}
{"role":"user","content":"two"}
'
  answers "$at: read over a server stream" "\"data\":\"$(base64_of "$view")\"" \
    "\"totalBytes\":\"${#view}\"" -- "$call" "$transport" StreamCurrent "{\"taskUuid\":\"$uuid\"}"
  answers "$at: get" '"totalMessages":"3"' "\"user\":\"$at\"" -- \
    "$call" "$transport" GetTask "{\"taskUuid\":\"$uuid\"}"
  # buf leaves the details of an error packed; grpcurl knows them by reflection.
  local missing=(ERROR_REASON_TASK_NOT_FOUND) wrong=(ERROR_REASON_INVALID_FIELD '"field":"task_uuid"')
  if [[ "$tool" == buf ]]; then
    missing=('"code":"not_found"' google.rpc.ErrorInfo)
    wrong=('"code":"invalid_argument"' google.rpc.BadRequest)
  fi
  refused "$at: a task that is not there" 018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10 "${missing[@]}" -- \
    "$call" "$transport" GetTask '{"taskUuid":"018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10"}'
  refused "$at: a field that is wrong" task_uuid "${wrong[@]}" -- \
    "$call" "$transport" GetTask '{"taskUuid":"nonsense"}'
  answers "$at: complete" '"status":"TASK_STATUS_COMPLETED"' -- "$call" "$transport" CompleteTask "{$task}"
}

start_server
token=$(<"$work/data/token")
socket=$work/data/contextstore.sock

for transport in tcp unix; do
  at="grpcurl over $transport"
  answers "$at: list the services" "$service" grpc.health.v1.Health -- grpcurl_on "$transport" list
  answers "$at: list the methods" "$service.StartTask" "$service.WatchTask" -- \
    grpcurl_on "$transport" "list $service"
  answers "$at: describe the service" 'rpc AppendMessages ( stream .contextstore.v1.AppendMessagesRequest )' -- \
    grpcurl_on "$transport" "describe $service"
  answers "$at: describe a message" '.contextstore.v1.NewMessage message = 2;' 'uint64 lease_generation = 3;' -- \
    grpcurl_on "$transport" "describe contextstore.v1.AppendMessageRequest"
  answers "$at: describe an enum" 'ERROR_REASON_LEASE_HELD = 6;' -- \
    grpcurl_on "$transport" "describe contextstore.v1.ErrorReason"
  answers "$at: health" '"status":"SERVING"' -- grpcurl_on "$transport" grpc.health.v1.Health/Check
  story grpcurl "$transport"

  at="buf curl over $transport"
  for version in grpc-v1 grpc-v1alpha; do
    answers "$at, reflection $version: list the services" "$service" grpc.health.v1.Health \
      "grpc.reflection.${version#grpc-}.ServerReflection" -- \
      buf_on "$transport" "" --list-services --reflect-protocol "$version"
    answers "$at, reflection $version: list the methods" "$service/StartTask" "$service/WatchTask" -- \
      buf_on "$transport" "" --list-methods --reflect-protocol "$version"
    answers "$at, reflection $version: call" '"version"' -- \
      buf_call "$transport" GetServerInfo '{}' --reflect-protocol "$version"
  done
  answers "$at: health" '"status":"SERVING"' -- buf_on "$transport" /grpc.health.v1.Health/Check --data '{}'
  story buf "$transport"
done

# Without the token, and with a wrong one, TCP has nothing but health.
answers 'health over tcp without a token' '"status":"SERVING"' -- health "$address"
answers 'buf curl: health over tcp without a token' '"status":"SERVING"' -- \
  "${buf_curl[@]}" --schema "$plain_protos" --data '{}' \
  "http://$address/grpc.health.v1.Health/Check"
refused 'grpcurl: reflection without a token' Unauthenticated -- "$GRPCURL" -plaintext -max-time "$deadline" "$address" list
refused 'grpcurl: a call without a token' Unauthenticated ERROR_REASON_UNAUTHENTICATED -- \
  "$GRPCURL" -plaintext -max-time "$deadline" -import-path proto -proto contextstore/v1/context_store.proto \
  -import-path "$plain_protos" -proto google/rpc/error_details.proto "$address" "$service/GetServerInfo"
refused 'buf curl: reflection without a token' 'not authenticated' -- \
  "${buf_curl[@]}" --list-services "http://$address"
refused 'buf curl: a call without a token' unauthenticated -- \
  "${buf_curl[@]}" --schema proto --data '{}' "http://$address/$service/GetServerInfo"
token=wrong
refused 'grpcurl: a wrong token' Unauthenticated -- grpcurl_on tcp list
refused 'buf curl: a wrong token' 'not authenticated' -- buf_on tcp '' --list-services

echo "$passed passed, $failed failed"
((failed == 0))
