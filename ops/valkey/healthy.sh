#!/bin/sh
# Healthy: the data is loaded, the password is accepted, and PING is answered.
set -eu
VALKEYCLI_AUTH=$(cat "${VALKEY_PASSWORD_FILE:-/run/secrets/valkey_password}")
REDISCLI_AUTH=$VALKEYCLI_AUTH
export VALKEYCLI_AUTH REDISCLI_AUTH
[ "$(valkey-cli ping)" = PONG ]
