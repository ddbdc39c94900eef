#!/bin/sh
# GNU parallel runs COMMAND once for each line of standard input, with the line as its last word, on several machines:
# as many at a time as there are machines, each on the one that is free. runcast keeps each run going when its
# connection breaks.
#
#     printf '%s\n' a.wav b.wav c.wav | parallel.sh "build1 build2" COMMAND [ARG]...
#
# jobs.log has the status and the time of each; --resume-failed of parallel goes on with those that failed. Options
# for ssh go into RUNCAST_SSH. Tried with parallel 20221122 and OpenSSH 9.2.
HOSTS=${1:?the machines}
export HOSTS
shift
# shellcheck disable=SC2086  # the machines are words.
count=$(printf '%s\n' $HOSTS | wc -l)
# A machine for each place that parallel has; it takes the names of its own between {= and =}.
exec parallel --quote --will-cite --jobs "$count" --line-buffer --joblog jobs.log \
  runcast --host '{= $_ = (split " ", $ENV{HOSTS})[slot() - 1] =}' ${RUNCAST_THERE:+--remote-runcast "$RUNCAST_THERE"} \
  -t "${TASK_TIMEOUT:-1h}" --stdin null -p='{#}| ' -- "$@" '{}'
