#!/bin/sh
# A step of a CI job: runs a command with limits, shows its output live, and says in one line how it ended.
#
#     ci.sh COMMAND [ARG]...
#
# Nothing that the command started is alive afterwards. With jq the line tells more.
result=${TMPDIR:-/tmp}/ci-result.$$.json
trap 'rm -f "$result"' EXIT
runcast -t "${CI_STEP_TIMEOUT:-30m}" --idle-timeout "${CI_IDLE_TIMEOUT:-10m}" -k 10s --leftover kill \
  --keep tail --max-output 64K --result "$result" -- "$@"
status=$?
if [ -s "$result" ] && command -v jq >/dev/null; then
  jq -r '"ended with \(.status) after \(.duration * 10 | round / 10) s"
    + (if .stopped_by then ", stopped by \(.stopped_by)" else "" end)
    + (if .signal then ", signal \(.signal)" else "" end)
    + (if .error then ", \(.error.message)" else "" end)' "$result" >&2
else
  echo "ended with $status" >&2
fi
exit "$status"
