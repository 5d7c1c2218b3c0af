#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Installs what the purposes given as arguments need: build, chat, test, lint.
# Asks once before anything is installed; YES=1 or CI=true answers. Does nothing when all is there.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}"

packages=''      # Debian packages that are missing
by_hand=''       # what is missing, for people on other systems; one a line
unmended=''      # what no package of Debian's mends
welcome=''       # Debian packages that are missing, without which some tests are skipped

want() { # PACKAGES DESCRIPTION
  packages="$packages $1"
  by_hand="$by_hand
  - $2"
}

have() { command -v "$1" >/dev/null 2>&1; }

report=''
ask_emacs() {
  if have "$EMACS"; then
    report=$("$EMACS" -Q --batch -l scripts/lisp-ide.el -f agent-q-ide-report 2>/dev/null) || report=''
  fi
}

fact() { # NAME -> its value in Emacs's report
  printf '%s\n' "$report" | sed -n "s/^$1 //p"
}

check_emacs() {
  if [ "$(fact emacs)" = ok ] && [ "$(fact modules)" = yes ]; then return; fi
  if [ "$EMACS" != emacs ]; then
    unmended="$unmended
  - $EMACS (named by EMACS=) is no Emacs 28.1 or later with dynamic modules"
  elif [ -n "$report" ] && [ "$(fact modules)" = no ]; then
    unmended="$unmended
  - the installed Emacs was built without dynamic modules (configure --with-modules)"
  else
    want emacs-nox 'Emacs 28.1 or later, with dynamic modules'
  fi
}

check_rust() {
  if ! have cargo; then
    unmended="$unmended
  - Rust 1.88 or later: https://rustup.rs"
    return
  fi
  minor=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
  if [ -n "$minor" ] && [ "$minor" -lt 88 ]; then
    unmended="$unmended
  - Rust 1.88 or later (this is 1.$minor): rustup update stable"
  fi
  have cc || want gcc 'a C compiler (cc)'
}

check_image() {
  have sbcl || want sbcl 'SBCL, or another Common Lisp that is called sbcl'
  if [ "${report:+set}" != set ] || { [ "$(fact sly)" = no ] && [ "$(fact slime)" = no ]; }; then
    want 'slime cl-swank' 'SLIME or SLY for Emacs (M-x package-install RET sly)'
  fi
}

# The tests are run through SLIME always, through SLY where it is found.
check_slime() {
  if [ "${report:+set}" != set ] || [ "$(fact slime)" = no ]; then
    case "$packages" in
      *slime*) ;;
      *) want 'slime cl-swank' 'SLIME for Emacs (M-x package-install RET slime)' ;;
    esac
  fi
}

check_lint() {
  if [ "${report:+set}" != set ] || [ "$(fact package-lint)" = no ]; then
    want elpa-package-lint 'package-lint for Emacs (M-x package-install RET package-lint)'
  fi
  have git || true # lint lists files with find, so git is no need
  if ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
    if have rustup; then
      echo "Adding rustfmt and clippy to the Rust toolchain."
      rustup component add rustfmt clippy >/dev/null 2>&1
    fi
    { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 ||
      echo "rustfmt and clippy are missing (rustup component add rustfmt clippy): lint can't check Rust." >&2
  fi
}

# Test frameworks that run_tests knows, and what is tried with readtables: without them these tests
# are skipped, so nothing is asked of people without Debian's packages.
check_frameworks() {
  have apt-get && have dpkg || return
  for package in cl-fiveam cl-rt cl-fiasco cl-named-readtables cl-alexandria; do
    dpkg -s "$package" >/dev/null 2>&1 || welcome="$welcome $package"
  done
}

explain() { # WHY
  echo "$1" >&2
  [ -z "$packages" ] || echo "On Debian or Ubuntu: sudo apt-get install$packages" >&2
  exit 1
}

agreed() {
  case "${YES:-}" in 1 | y | yes | true) return 0 ;; esac
  [ "${CI:-}" = true ] && return 0
  if [ ! -t 0 ] || [ ! -t 1 ]; then
    explain "Not installed, since nobody is here to ask (YES=1 answers yes)."
  fi
  printf 'Install them now? [Y/n] '
  read -r answer
  case "$answer" in '' | y | Y | yes | Yes) return 0 ;; *) return 1 ;; esac
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install() {
  echo "Missing:$by_hand"
  have apt-get || explain "Please install these with your system's package manager, then try again."
  if [ "$(id -u)" -ne 0 ] && ! have sudo; then
    explain "Please install these as root (sudo is not there), then try again."
  fi
  echo "Debian packages:$packages"
  agreed || explain "Nothing was installed."
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get -q update || echo "apt-get update failed; trying with the lists that are there." >&2
  # Without recommended packages: slime recommends a graphical Emacs.
  # shellcheck disable=SC2086
  as_root apt-get -q install -y --no-install-recommends $packages ||
    explain "apt-get could not install what is missing."
}

install_welcome() {
  if [ "$(id -u)" -ne 0 ] && ! have sudo; then return; fi
  echo "Debian packages that some tests use:$welcome"
  if { [ -z "${YES:-}${CI:-}" ] && { [ ! -t 0 ] || [ ! -t 1 ]; }; } || ! agreed; then
    echo "Not installed; the tests that use them are skipped."
    return
  fi
  export DEBIAN_FRONTEND=noninteractive
  [ -n "$packages" ] || as_root apt-get -q update >/dev/null 2>&1
  # shellcheck disable=SC2086
  as_root apt-get -q install -y --no-install-recommends $welcome ||
    echo "apt-get could not install them; the tests that use them are skipped." >&2
}

ask_emacs
for purpose in "$@"; do
  case "$purpose" in
    build) check_emacs; check_rust ;;
    chat) check_image ;;
    test)
      have tmux || want tmux 'tmux, for the test in a terminal'
      check_slime
      check_lint
      check_frameworks ;;
    lint) check_emacs; check_rust; check_lint ;;
    *) echo "setup.sh: unknown purpose $purpose" >&2; exit 2 ;;
  esac
done

[ -z "$packages" ] || install
[ -z "$welcome" ] || install_welcome
if [ -n "$unmended" ]; then
  echo "Still missing:$unmended" >&2
  exit 1
fi
