#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Has a model solve the tasks of test/trial, each in a folder of its own with an Emacs and a Lisp of its own, and
# prints a table: a fresh Lisp says whether a task is solved. PROVIDER is a value of `agent-q-provider', MODEL one of
# `agent-q-model', both in Lisp; by default what a chat would find. TASKS='ledger memo' chooses.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}" "${TASKS:=}" "${YES:=}"
[ -n "$TASKS" ] || TASKS=$(cd test/trial && for task in */; do printf '%s ' "${task%/}"; done)
for task in $TASKS; do
  [ -f "test/trial/$task/task.txt" ] || {
    echo "trial: there is no task $task in test/trial." >&2
    exit 2
  }
done

model=$("$EMACS" -Q --batch -l scripts/trial.el -f agent-q-trial-model 2>/dev/null) || {
  echo 'trial: no model was found. Set a key in the environment, or PROVIDER, such as' >&2
  echo "  PROVIDER='(:base-url \"http://127.0.0.1:8080/v1\" :model \"qwen3\")'" >&2
  exit 1
}
echo "$model is to solve: $TASKS"
echo 'It edits copies of the projects, and its code runs in Lisps of its own without asking you; what reaches'
echo 'outside of its folder is denied. This is no sandbox, and costs tokens (about 100,000 of input a task).'
if [ "$YES" != 1 ]; then
  printf 'Go on? [y/N] '
  read -r answer
  case $answer in y | Y) ;; *) exit 1 ;; esac
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/agent-q-trial.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

. scripts/trial-check.sh

solved=0
tasks=0
: > "$scratch/table"
for task in $TASKS; do
  project=$scratch/$task
  cp -R "test/trial/$task/project" "$project"
  printf '%s ... ' "$task"
  AGENT_Q_TRIAL_TASK=$(pwd)/test/trial/$task/task.txt AGENT_Q_TRIAL_PROJECT=$project ASDF_OUTPUT_TRANSLATIONS=/:$project.image \
    "$EMACS" -Q --batch -l scripts/trial.el -f agent-q-trial-run > "$project.row" 2> "$project.log"
  held=$(check "$project" "$task")
  tasks=$((tasks + 1))
  case $held in
    '') answer='no (it does not load)' ;;
    *)
      if [ "${held% of *}" = "${held#* of }" ]; then
        answer=yes
        solved=$((solved + 1))
      else
        answer="no ($held)"
      fi
      ;;
  esac
  echo "$answer"
  [ -s "$project.row" ] || tail -3 "$project.log"
  printf '%s|%s|%s\n' "$task" "$answer" "$(cat "$project.row")" >> "$scratch/table"
  [ -z "${KEEP:-}" ] || {
    mkdir -p "$KEEP"
    cp -R "$project" "$project.check" "$project.log" "$KEEP/"
  }
done

echo
echo '| task | solved | requests | calls (failed) | questions (denied) | characters of results | tokens in, out | seconds | end |'
echo '| --- | --- | --- | --- | --- | --- | --- | --- | --- |'
while IFS='|' read -r task answer requests calls failed questions denied characters input output seconds end; do
  echo "| $task | $answer | $requests | $calls ($failed) | $questions ($denied) | $characters | $input, $output | $seconds | $end |"
done < "$scratch/table"
echo
echo "$solved of $tasks solved by $model"
