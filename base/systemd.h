/* What systemd gives a service and is told by it, of sd_listen_fds(3) and sd_notify(3); without
 * systemd nothing happens. Thread: main's, while no other reads the environment. */
#pragma once

#include "base/err.h"

/* *fd: the listening TCP socket that this process was started with, the caller's from now on; -1:
 * with none. Children do not inherit it. */
int systemd_socket(int *fd, struct err *e);
/* Tells the service's state: "READY=1", "STOPPING=1". */
void systemd_notify(const char *state);
void systemd_notify_reload(void); /* it begins; READY=1 ends it */
