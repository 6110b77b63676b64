#!/bin/sh
# as_owner.sh COMMAND ...: runs a command as the owner of /app/outputs, so that runs belong to who owns the clone.
# The container begins as root for this alone; another user that it begins as stays.
set -eu
[ "$(id -u)" = 0 ] || exec "$@"
exec setpriv --reuid "$(stat -c %u /app/outputs)" --regid "$(stat -c %g /app/outputs)" --clear-groups -- "$@"
