#!/usr/bin/env bash
# Counts the instructions that runcast spends on 100-byte lines, and on a command that writes nothing, and fails if
# they have become more than what is kept in instructions.txt, by more than a tolerance. Nothing here is timed: a
# busy machine changes nothing.
#
#   benches/instructions.sh [PATH-OF-RUNCAST]       built if it is not given
#   BLESS=1 benches/instructions.sh                 keeps what is measured
#
# Without valgrind it is skipped; with RUNCAST_REQUIRE_TOOLS=1 that is a failure.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Percent. Less, and where a read happens to end makes it fail; more, and a new pass over each line is not seen.
tolerance=10
# Instructions per 1000 lines on top of that: one for each line. Text takes hardly any for a line, and as much
# again when its threads find each other at a bad moment; a pass over the line takes several.
slack=1000
kept_file=benches/instructions.txt

# The command writes the same block again and again. A block is 100 reads of 64 KiB, and whole lines.
block_lines=65536
line_bytes=100
few=1
# The difference between many and few has no start-up in it. Text takes so little for a line that it has to be
# many lines for that to stand out.
declare -A many=([text]=41 [ndjson]=6)
# Of some runs the least counts: what comes on top of it is threads that found each other at a bad moment.
runs=3

if ! valgrind=$(command -v valgrind); then
  echo "SKIP: valgrind is not installed"
  [ "${RUNCAST_REQUIRE_TOOLS:-}" != 1 ]
  exit
fi

runcast=${1:-}
if [ -z "$runcast" ]; then
  cargo build --release --bin runcast
  runcast=${CARGO_TARGET_DIR:-target}/release/runcast
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
printf -v line '%*s' $((line_bytes - 1)) ''
awk -v line="${line// /x}" -v lines="$block_lines" 'BEGIN { while (lines-- > 0) print line }' >"$scratch/block"

# A command that writes nothing. It lasts until all threads are there and wait for it, so that each has the same to do
# every time.
silent=(sleep 1)

# The least number of instructions that runcast, without the command, takes for this one. The environment is the same
# everywhere, since the C library looks through it at the start.
count() {
  local format=$1 least='' found
  shift
  for ((run = 0; run < runs; run++)); do
    env -i PATH=/usr/bin:/bin "$valgrind" --tool=callgrind --trace-children=no --callgrind-out-file=/dev/null \
      --log-file="$scratch/log" "$runcast" -f "$format" --stdin null -- "$@" >/dev/null ||
      { cat "$scratch/log" >&2; return 1; }
    found=$(sed -n 's/.*Collected *: *\([0-9]*\).*/\1/p' "$scratch/log")
    if [ -z "$least" ] || ((found < least)); then least=$found; fi
  done
  echo "$least"
}

# The same for so many blocks.
count_blocks() {
  local format=$1 blocks=$2 files=()
  while ((blocks-- > 0)); do files+=("$scratch/block"); done
  count "$format" cat "${files[@]}"
}

# For 1000 lines: for one, text takes hardly any.
per_1000_lines() {
  local format=$1 blocks=$2 with_few with_many
  with_few=$(count_blocks "$format" "$few")
  with_many=$(count_blocks "$format" "$blocks")
  echo $(((with_many - with_few) * 1000 / ((blocks - few) * block_lines)))
}

kept() { sed -n "s/^$1 //p" "$kept_file"; }

status=0
measured=''

# Compares what was measured with what is kept under this name.
compare() {
  local name=$1 now=$2 before
  measured+="$name $now"$'\n'
  if [ "${BLESS:-}" = 1 ]; then
    echo "$name: $now, kept now"
    return
  fi
  before=$(kept "$name")
  if [ -z "$before" ]; then
    echo "$name: $now, and $kept_file has nothing to compare it with: BLESS=1 keeps it"
    status=1
  elif ((now * 100 > before * (100 + tolerance) + slack * 100)); then
    echo "$name: $now, $before: MORE than $tolerance % above"
    status=1
  elif ((now * 100 < before * (100 - tolerance) - slack * 100)); then
    echo "$name: $now, $before: more than $tolerance % below; BLESS=1 keeps that"
  else
    echo "$name: $now, $before: within $tolerance %"
  fi
}

echo "instructions per 1000 lines of $line_bytes bytes, and for a start, measured and kept:"
for format in text ndjson; do
  now=$(per_1000_lines "$format" "${many[$format]}")
  compare "$format" "$now"
  now=$(count "$format" "${silent[@]}")
  compare "$format-start" "$now"
done

if [ "${BLESS:-}" = 1 ]; then
  {
    echo "# Instructions per 1000 lines of $line_bytes bytes, and for a start, as benches/instructions.sh counts them on"
    echo "# x86_64 with AVX2."
    echo "# $(rustc --version), $(valgrind --version)"
    printf '%s' "$measured"
  } >"$kept_file"
fi
exit "$status"
