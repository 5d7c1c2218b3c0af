#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Tests agent-q as a client of MCP by the protocol's own suite, which npm has; it needs Node 22. CONFORMANCE says how
# to start the suite. Without it, nothing is tested. What isn't ours is left out: agent-q declines elicitation, and
# knows no OAuth.

set -eu
cd "$(dirname "$0")/.."
: "${EMACS:=emacs}" "${CONFORMANCE:=npx -y @modelcontextprotocol/conformance}"
: "${SCENARIOS:=initialize tools_call sse-retry}"

# shellcheck disable=SC2086 # It is a command with arguments.
$CONFORMANCE --version >/dev/null 2>&1 || {
  echo "conformance: skipped, as \`$CONFORMANCE' doesn't run here" >&2
  exit 0
}

client=$(mktemp "${TMPDIR:-/tmp}/agent-q-conformance.XXXXXX")
trap 'rm -f "$client"' EXIT
# The suite adds the address of its server.
cat > "$client" <<END
#!/bin/sh
exec '$EMACS' -Q --batch -L '$PWD/lisp' -l '$PWD/scripts/conformance.el' -f agent-q-conformance "\$@"
END
chmod +x "$client"

failed=0
for scenario in $SCENARIOS; do
  # shellcheck disable=SC2086 # As above.
  $CONFORMANCE client --command "$client" --scenario "$scenario" || failed=$((failed + 1))
done
[ "$failed" -eq 0 ]
