#!/bin/sh
# The password is read from a file and passed by standard input, so it is in no argument, environment or other file.
set -eu
password=$(cat "${VALKEY_PASSWORD_FILE:-/run/secrets/valkey_password}")
[ -n "$password" ] || { echo "serve.sh: the password's file is empty" >&2; exit 1; }
memory=${VALKEY_MAXMEMORY:-1gb}
case "$memory" in
    *[!0-9kmgb]* | [!0-9]* | 0*) echo "serve.sh: VALKEY_MAXMEMORY is \"$memory\", and can be a size such as 1gb" >&2; exit 1 ;;
esac
# A socket that every user may open, in a folder that only the owner of the clone can enter.
socket=${VALKEY_SOCKET:+"unixsocket $VALKEY_SOCKET
unixsocketperm 777"}
exec valkey-server /etc/whetstone/valkey.conf - <<CONFIGURATION
requirepass "$password"
maxmemory $memory
$socket
CONFIGURATION
