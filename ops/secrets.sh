#!/bin/sh
# Creates secrets/ and .env, which `docker compose up` needs and which do not belong in a repository.  Existing files stay.
#   OPENAI_API_KEY=sk-... ops/secrets.sh     stores the key; without one, rules answer in place of a language model
set -eu
cd "$(dirname "$0")/.."
umask 077

random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

keep() { # NAME TEXT: only the owner can open the folder; containers, which run as another user, get single files
    # Where Compose was started first, it has created an empty folder in the file's place.
    [ ! -d "secrets/$1" ] || rmdir "secrets/$1"
    [ -e "secrets/$1" ] || printf '%s\n' "$2" > "secrets/$1"
    chmod 644 "secrets/$1"
}

mkdir -p secrets outputs data
chmod 700 secrets
keep valkey_password "$(random)"
keep flower_basic_auth "whetstone:$(random)"
keep grafana_password "$(random)"
keep openai_api_key "${OPENAI_API_KEY:-rules-$(random)}"
keep hf_token "${HF_TOKEN:-}"  # for gated models on Hugging Face

# Runs are written to outputs/ with your user id, but not as root.
user=$(id -u) group=$(id -g)
if [ "$user" = 0 ]; then
    user=10001 group=10001
    chown "$user:$group" outputs
fi
chmod 755 outputs data

if [ ! -e .env ]; then
    rules=http://rules:8000/v1
    case "$(cat secrets/openai_api_key)" in rules*) ;; *) rules= ;; esac
    cat > .env <<ENVIRONMENT
# Read by docker compose.  docs/operations.md lists the other variables.
WHETSTONE_SECRETS=./secrets
WHETSTONE_UID=$user
WHETSTONE_GID=$group
OPENAI_BASE_URL=${OPENAI_BASE_URL:-$rules}
ENVIRONMENT
fi
echo "secrets/ and .env exist; Flower's name and password: $(cat secrets/flower_basic_auth)"
