#!/bin/sh
# Makes the folders of this clone that containers use, and each secret that is missing; what is there stays.
# `docker compose up` runs it in its first container, as root; a user may run it before.
#   OPENAI_API_KEY=sk-... ops/secrets.sh     stores your key; without one, rules answer in place of a language model
set -eu
cd "$(dirname "$0")/.."
umask 022

random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

keep() { # FOLDER/NAME TEXT: a service mounts the folders of the secrets that it needs, as a user of its own
    folder=secrets/${1%/*}
    mkdir -p "$folder"
    chmod 755 "$folder"
    [ -s "secrets/$1" ] || printf '%s\n' "$2" > "secrets/$1"
    chmod 644 "secrets/$1"
}

mkdir -p secrets secrets/socket outputs data
chmod 700 secrets        # on this machine only the owner of the clone gets to what is in it
chmod 777 secrets/socket # where Valkey, as a user of its own, makes its socket
keep broker/valkey_password "$(random)"
keep endpoint/openai_api_key "${OPENAI_API_KEY:-rules-$(random)}"
keep flower/flower_basic_auth "whetstone:$(random)"
keep grafana/grafana_password "$(random)"
keep models/hf_token "${HF_TOKEN:-}" # for gated models of Hugging Face

# A key of yours is for the endpoint that it belongs to.
if [ "$(cat secrets/endpoint/openai_api_key)" = "${OPENAI_API_KEY:-}" ] && ! grep -qs '^FARM_OPENAI_BASE_URL=' .env; then
    echo "FARM_OPENAI_BASE_URL=${OPENAI_BASE_URL:-https://api.openai.com/v1}" >> .env
fi

# What root has made, or Docker before it, belongs to the owner of the clone.
if [ "$(id -u)" = 0 ]; then
    owner=$(stat -c %u:%g ops/secrets.sh)
    chown -hR "$owner" secrets
    for folder in outputs data; do
        [ "$(stat -c %u "$folder")" != 0 ] || chown "$owner" "$folder"
    done
fi
echo "secrets/ is complete; Flower's name and password are in secrets/flower/flower_basic_auth"
