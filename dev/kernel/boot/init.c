/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The first process of the guest. It loads the modules that came with it,
 * lays memory over the read-only root of the host, and runs a shell script
 * there; when that ends, it switches the machine off.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHARED "trans=virtio,version=9p2000.L,msize=512000,"
#define OVER "lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work"

struct mount_point {
    const char *source, *folder, *type, *options;
    unsigned long flags;
};

static const struct mount_point first[] = {
    {"proc", "/proc", "proc", NULL, 0},
    {"dev", "/dev", "devtmpfs", NULL, 0},
};

static const struct mount_point root[] = {
    {"host", "/host", "9p", SHARED "cache=loose", MS_RDONLY},
    {"memory", "/memory", "tmpfs", NULL, 0},
    {"root", "/merged", "overlay", OVER, 0},
    {"proc", "/merged/proc", "proc", NULL, 0},
    {"sys", "/merged/sys", "sysfs", NULL, 0},
    {"dev", "/merged/dev", "devtmpfs", NULL, 0},
    {"shm", "/merged/dev/shm", "tmpfs", NULL, 0},
    {"run", "/merged/run", "tmpfs", NULL, 0},
    {"out", "/merged/run/out", "9p", SHARED "cache=none", 0},
};

static void complain(const char *what)
{
    printf("init: %s: %s\n", what, strerror(errno));
    fflush(stdout);
}

static void mount_one(const struct mount_point *one)
{
    mkdir(one->folder, 0755);
    if (!strcmp(one->type, "overlay")) {
        mkdir("/memory/upper", 0755);
        mkdir("/memory/work", 0755);
    }
    if (mount(one->source, one->folder, one->type, one->flags,
              one->options)) {
        complain(one->folder);
    }
}

static void load_modules(void)
{
    char line[256];
    FILE *list = fopen("/modules/order", "r");

    while (list && fgets(line, sizeof(line), list)) {
        char *options = strchr(line, ' ');
        int module;

        line[strcspn(line, "\n")] = 0;
        if (options) {
            *options++ = 0;
        }
        module = open(line, O_RDONLY | O_CLOEXEC);
        if (syscall(SYS_finit_module, module, options ? options : "", 0)) {
            complain(line);
        }
        close(module);
    }
}

static void run_script(void)
{
    char *words[] = {"/bin/sh", "/run/out/loop.sh", NULL};
    char *environment[] = {
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
        "LC_ALL=C.UTF-8", NULL
    };

    if (chroot("/merged") || chdir("/")) {
        complain("/merged");
        _exit(1);
    }
    chmod("/tmp", 01777);
    chmod("/dev/shm", 01777);
    setsid();
    execve(words[0], words, environment);
    complain(words[0]);
    _exit(1);
}

int main(void)
{
    size_t at;
    pid_t script;

    for (at = 0; at < sizeof(first) / sizeof(*first); at++) {
        mount_one(&first[at]);
    }
    load_modules();
    for (at = 0; at < sizeof(root) / sizeof(*root); at++) {
        mount_one(&root[at]);
    }
    fflush(stdout);
    script = fork();
    if (!script) {
        run_script();
    }
    /* Orphans are ours too. */
    while (waitpid(-1, NULL, 0) != script) {
    }
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
