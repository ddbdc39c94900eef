#!/bin/sh
#SBATCH --ntasks=2
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out
# A Slurm job that runs COMMAND once for each task. Slurm says where and when; runcast is between srun and COMMAND:
# it says which task a line is from, stops a task in time to say so before Slurm does, leaves nothing behind, and
# writes how each one ended into a file.
#
#     sbatch --ntasks=8 slurm.sh COMMAND [ARG]...
#
# COMMAND finds its number in SLURM_PROCID. runcast has to be on the PATH of the nodes. Tried with Slurm 22.05.
export RESULTS="${SLURM_SUBMIT_DIR:-.}/${SLURM_JOB_NAME:-job}-${SLURM_JOB_ID:-0}"
# shellcheck disable=SC2016  # what is quoted is for each task.
exec srun --kill-on-bad-exit=0 sh -c '
  exec runcast -t "${TASK_TIMEOUT:-55m}" -k 20s --leftover kill -p="$SLURM_PROCID| " \
    --keep tail --result "$RESULTS-$SLURM_PROCID.json" -- "$@"' task "$@"
