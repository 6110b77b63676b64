#!/bin/sh
# The password is read from a file and passed by standard input, so it is in no argument, environment or other file.
set -eu
password=$(cat "${VALKEY_PASSWORD_FILE:-/run/secrets/valkey_password}")
[ -n "$password" ] || { echo "serve.sh: the password's file is empty" >&2; exit 1; }
exec valkey-server /etc/whetstone/valkey.conf - <<CONFIGURATION
requirepass "$password"
CONFIGURATION
