#!/bin/sh
# The password comes from a file and goes in through standard input: no argument, no environment and no disk holds it.
set -eu
password=$(cat "${VALKEY_PASSWORD_FILE:-/run/secrets/valkey_password}")
[ -n "$password" ] || { echo "serve.sh: the password's file is empty" >&2; exit 1; }
exec valkey-server /etc/whetstone/valkey.conf - <<CONFIGURATION
requirepass "$password"
CONFIGURATION
