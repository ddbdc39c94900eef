#!/bin/sh
# clush (ClusterShell) runs COMMAND, one string for the shell, on every node of a set at once; the lines of each begin
# with its name. runcast keeps each run going when its connection breaks, and stops those that take too long.
#
#     clush.sh node[1-8] 'cd /srv/app && ./check'
#
# Options for ssh go into RUNCAST_SSH. Tried with clush 1.9 and OpenSSH 9.2.
nodes=${1:?the nodes}
export COMMAND="${2:?the command}"
# clush gives its words to a shell here, once for each node, whose name stands for %h.
exec clush -S -R exec -w "$nodes" \
  runcast --host %h ${RUNCAST_THERE:+--remote-runcast "$RUNCAST_THERE"} \
  -t "${TASK_TIMEOUT:-10m}" --stdin null --shell -- '"$COMMAND"'
