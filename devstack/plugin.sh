# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash
# The settings come from devstack and from the file beside this one.
# shellcheck disable=SC2154

# Installs nova-ext-resources into a devstack, and enables it in Nova.
# devstack sources this once in each phase: plugin.sh stack post-config

_NOVA_EXT_RESOURCES_XTRACE=$(set +o | grep xtrace)
set +o xtrace

install_nova_ext_resources() {
    setup_develop "$NOVA_EXT_RESOURCES_DIR"
    # Nova looks for drivers in its own package, which is a checkout here.
    ln -sfn "$NOVA_EXT_RESOURCES_DIR/nova/virt/ext_resources" \
        "$NOVA_DIR/nova/virt/ext_resources"
}

list_nova_confs() {
    # nova-compute has a copy of that of its cell, or of nova.conf, which is
    # made when it starts.
    local path
    for path in "$NOVA_CONF" "$NOVA_CONF_DIR"/nova_cell*.conf; do
        [[ ! -e $path ]] || echo "$path"
    done
}

configure_compute() {
    local driver path
    case $VIRT_DRIVER in
        libvirt) driver=ext_resources.LibvirtDriver ;;
        fake) driver=ext_resources.FakeDriver ;;
        *) die "$LINENO" "nova-ext-resources: there is no driver for" \
            "VIRT_DRIVER=$VIRT_DRIVER; use libvirt or fake" ;;
    esac
    for path in $(list_nova_confs); do
        iniset "$path" DEFAULT compute_driver "$driver"
        iniset "$path" ext_resources inventory_providers \
            "$NOVA_EXT_RESOURCES_INVENTORY_PROVIDERS"
        iniset "$path" ext_resources enforcers "$NOVA_EXT_RESOURCES_ENFORCERS"
        iniset "$path" ext_resources_static definitions_file \
            "$NOVA_EXT_RESOURCES_DEFINITIONS"
        if [[ $NOVA_EXT_RESOURCES_METRICS_PORT ]]; then
            iniset "$path" ext_resources_metrics port \
                "$NOVA_EXT_RESOURCES_METRICS_PORT"
        fi
    done
}

mount_resctrl() {
    mountpoint -q /sys/fs/resctrl ||
        sudo mount -t resctrl resctrl /sys/fs/resctrl
}

configure_scheduler() {
    local filters values
    filters=$(iniget "$NOVA_CONF" filter_scheduler enabled_filters)
    filters=${filters:-ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter}
    # For CPUs of pinned servers.
    [[ ,$filters, == *,NUMATopologyFilter,* ]] || filters+=,NUMATopologyFilter
    # The last one: it orders what is left.
    iniset "$NOVA_CONF" filter_scheduler enabled_filters \
        "$filters,ExtendedResourcesFilter"
    values=$(iniget_multiline "$NOVA_CONF" filter_scheduler available_filters)
    # shellcheck disable=SC2086
    iniset_multiline "$NOVA_CONF" filter_scheduler available_filters \
        ${values:-nova.scheduler.filters.all_filters} \
        nova_ext_resources.scheduler.filters.all_filters
    values=$(iniget "$NOVA_CONF" filter_scheduler weight_classes)
    iniset "$NOVA_CONF" filter_scheduler weight_classes \
        "${values:-nova.scheduler.weights.all_weighers},nova_ext_resources.scheduler.weighers.all_weighers"
}

configure_nova_ext_resources() {
    if is_service_enabled n-cpu; then
        configure_compute
        if [[ ,${NOVA_EXT_RESOURCES_ENFORCERS// /}, == *,resctrl,* ]]; then
            mount_resctrl
        fi
    fi
    if is_service_enabled n-sch; then
        configure_scheduler
    fi
}

case "${1:-} ${2:-}" in
    'stack install')
        echo_summary 'Installing nova-ext-resources'
        install_nova_ext_resources
        ;;
    'stack post-config')
        echo_summary 'Configuring nova-ext-resources'
        configure_nova_ext_resources
        ;;
    clean*)
        rm -f "$NOVA_DIR/nova/virt/ext_resources"
        ;;
esac

$_NOVA_EXT_RESOURCES_XTRACE
