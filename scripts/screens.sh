#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Writes docs/screens: what a session looks like in a light and in a dark theme. EMACS names an Emacs
# with windows, `make build' has been run. Needs Xvfb, import and convert of ImageMagick, and SBCL with SLY
# or SLIME. No picture says where or when it was taken.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}"
: "${EMACS_ARGUMENTS:=}"
for program in Xvfb import convert sbcl; do
  command -v "$program" >/dev/null || { echo "screens: $program is not installed" >&2; exit 1; }
done

server=${CARGO_TARGET_DIR:-target}/debug/examples/scripted-server
[ -x "$server" ] || cargo build --quiet --example scripted-server || exit 1

scratch=$(mktemp -d "${TMPDIR:-/tmp}/agent-q-screens.XXXXXX") || exit 1
display=''
finish() {
  [ -z "$display" ] || kill "$display" 2>/dev/null
  rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM

# It chooses a number that is free and writes it.
mkfifo "$scratch/number"
Xvfb -displayfd 3 -screen 0 1000x760x24 -nolisten tcp 3> "$scratch/number" 2> "$scratch/xvfb.log" &
display=$!
read -r number < "$scratch/number" || { cat "$scratch/xvfb.log" >&2; exit 1; }

mkdir -p docs/screens
for theme in modus-operandi modus-vivendi; do
  rm -rf "$scratch/home"
  mkdir "$scratch/home"
  # shellcheck disable=SC2086
  env -u WAYLAND_DISPLAY DISPLAY=":$number" HOME="$scratch/home" TZ=UTC SCREENS_THEME="$theme" \
    SCREENS_SCRATCH="$scratch" SCREENS_SERVER="$(realpath "$server")" "$EMACS" $EMACS_ARGUMENTS -Q -l scripts/screens.el \
    2> "$scratch/emacs.log" || { cat "$scratch/emacs.log" >&2; exit 1; }
done
for picture in "$scratch"/*.png; do
  name=docs/screens/$(basename "$picture")
  convert "$picture" +dither -colors 64 -strip "PNG8:$name" || exit 1
  echo "screens: $name, $(($(wc -c < "$name") / 1024)) kB"
done
