#!/bin/sh
# Healthy is: has loaded its data, knows the password, answers.
set -eu
VALKEYCLI_AUTH=$(cat "${VALKEY_PASSWORD_FILE:-/run/secrets/valkey_password}")
REDISCLI_AUTH=$VALKEYCLI_AUTH
export VALKEYCLI_AUTH REDISCLI_AUTH
[ "$(valkey-cli ping)" = PONG ]
