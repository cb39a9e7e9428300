#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Boots a server with licences on a devstack that has the plugin, looks at what
# is published and allocated, and deletes it:  devstack/try.sh
#
# With the settings as they are: plugin "static" and its definitions.yaml.
# DEVSTACK_DIR is the checkout of devstack, /opt/stack/devstack by default.

set -euo pipefail

resource_class=CUSTOM_LICENCE_SEAT

step() {
    echo "== $*"
}

fail() {
    echo "devstack/try.sh: $*" >&2
    exit 1
}

wait_until() {
    # A host is published within a minute.
    local tries
    for ((tries = 0; tries < 30; tries++)); do
        if "$@"; then
            return 0
        fi
        sleep 5
    done
    return 1
}

is_published() {
    openstack allocation candidate list \
        --resource "$resource_class=2" --resource VCPU=1 \
        -f value -c '#' | grep -q .
}

clean_up() {
    openstack server delete --wait licensed || true
    openstack flavor delete licensed || true
}

# It reads variables that are not set.
set +u
# shellcheck source=/dev/null
source "${DEVSTACK_DIR:-/opt/stack/devstack}/openrc" admin admin
set -u

step 'what the host has'
wait_until is_published ||
    fail "no host has $resource_class; look at the log of nova-compute"
openstack extended resource host list

step 'a server with two seats'
image=$(openstack image list -f value -c Name | head -n 1)
[[ $image ]] || fail 'there is no image'
trap clean_up EXIT
openstack flavor create licensed --vcpus 1 --ram 128 --disk 1 \
    --property "resources:$resource_class=2" >/dev/null
openstack server create licensed --flavor licensed --image "$image" \
    --nic none --wait >/dev/null
openstack extended resource usage show licensed |
    grep "$resource_class" ||
    fail "the server has no $resource_class"

step 'where another one fits, and what is wrong'
openstack extended resource explain --flavor licensed
openstack extended resource audit ||
    fail 'the audit has found something, see above'
