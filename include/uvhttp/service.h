/* Owns: what a program needs that runs as a service: its manager, PID file, user and limits, and the upgrade to a new
 * binary. See docs/guide/deployment.md. */
#ifndef UVHTTP_SERVICE_H
#define UVHTTP_SERVICE_H

#include <uvhttp/server.h>

UVHTTP_BEGIN_DECLS

/** Makes the process a service around `server`, which uvhttp_server_run will run. Call it once per process, after
 * uvhttp_server_new, before the first listen, and while the program has no other threads. It
 * - applies `umask` and `descriptor_limit` of the configuration, and locks and writes `pid_file`;
 * - accepts the listening sockets of the process that this one replaces: a listen on an address of that process gets
 * them;
 * - tells the service manager (systemd's protocol, NOTIFY_SOCKET): ready, reloading, stopping; and, if it asks for that
 * (WATCHDOG_USEC), that every loop iterates.
 *
 * uvhttp_server_run then changes to `user` and `group` after all addresses are bound and before a loop starts. If
 * install_signal_handlers is true, SIGUSR2 calls uvhttp_service_upgrade.
 *
 * Returns 0, UVHTTP_E_INVALID (`server` is NULL), UVHTTP_E_STATE (called twice, after listen, or the server is attached
 * to a loop), UVHTTP_E_CONFIG (`umask` or `descriptor_limit`), UVHTTP_E_IO or UVHTTP_E_PERMISSION
 * (`pid_file`), UVHTTP_E_ADDRESS_IN_USE (another process has locked `pid_file`) or UVHTTP_E_NOMEM. After an error
 * listen and run fail, too; uvhttp_server_error_text has the reason. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_service_init(uvhttp_server_t *server);

/** Starts the program again, from the file that it was started from and with the same arguments, working directory and
 * environment, and passes on the listening sockets and the PID file. When the new process is ready, this server drains
 * without a grace period, and uvhttp_server_run returns. If the new process ends first, or is not ready within
 * `upgrade_timeout`, it is ended, and this server continues; the log has the reason. The file may have been replaced:
 * that is the purpose.
 *
 * Returns 0 (started, on a thread of its own), UVHTTP_E_INVALID (`server` is NULL), UVHTTP_E_STATE (no
 * uvhttp_service_init, the server does not run or is stopping, or an upgrade is in progress), UVHTTP_E_UNSUPPORTED
 * (/proc does not tell how the program was started) or UVHTTP_E_LIMIT (no thread). Any thread, but not a signal
 * handler. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_service_upgrade(uvhttp_server_t *server);

/** Sends `state` to the service manager as one datagram: lines such as "STATUS=loading data" (sd_notify(3)). Needs no
 * uvhttp_service_init: a program with a loop of its own sends "READY=1" and the like itself. Returns 1 (sent), 0 (there
 * is no manager: NOTIFY_SOCKET is not set), UVHTTP_E_INVALID (`state` is NULL), UVHTTP_E_ADDRESS (NOTIFY_SOCKET is
 * no Unix address) or UVHTTP_E_IO. Any thread, not while another one changes the environment. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_service_notify(const char *state);

/** Changes the user and the group of all threads of the process, for good: supplementary groups, then group, then user,
 * each checked afterwards. Names or numbers. `user` NULL or "": only the group changes. `group` NULL or "": the primary
 * group of the user. If the process already is that user and group, nothing changes. uvhttp_server_run does this by
 * itself after uvhttp_service_init.
 *
 * Returns 0, UVHTTP_E_INVALID (neither is given), UVHTTP_E_CONFIG (no such user or group), UVHTTP_E_PERMISSION (not
 * allowed, or it could be reversed) or UVHTTP_E_NOMEM; `message` (`size` bytes, may be NULL) then has one line. After
 * UVHTTP_E_PERMISSION the process may have changed in part: end it. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_service_drop_privileges(const char *user, const char *group, char *message,
                                                                     size_t size);

UVHTTP_END_DECLS

#endif
