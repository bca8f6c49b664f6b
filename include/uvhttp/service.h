/* Owns: support for programs that run as a service: notification of the service manager, PID file, user, limits, and
 * upgrade to a new binary. See docs/guide/deployment.md. */
#ifndef UVHTTP_SERVICE_H
#define UVHTTP_SERVICE_H

#include <uvhttp/server.h>

UVHTTP_BEGIN_DECLS

/** Prepares the process to run `server` as a service, with uvhttp_server_run. Call it once per process, after
 * uvhttp_server_new, before the first listen, and while the program has no other threads. It
 * - applies `umask` and `descriptor_limit` of the configuration, looks up `user` and `group`, and locks and writes
 * `pid_file`;
 * - inherits the listening sockets of the process that this one replaces, for uvhttp_server_listen on their addresses;
 * - reports to the service manager (systemd's protocol, NOTIFY_SOCKET) when the server is ready, reloading or stopping
 * and, if the manager requests it (WATCHDOG_USEC), that every loop iterates.
 *
 * uvhttp_server_run then changes to `user` and `group` after all addresses are bound and before a loop starts. If
 * install_signal_handlers is true, SIGUSR2 calls uvhttp_service_upgrade. SIGHUP and SIGUSR2 that arrive before the
 * server is ready take effect then: until then, or until uvhttp_server_free, they are blocked on this thread.
 *
 * Returns 0, UVHTTP_E_INVALID (`server` is NULL), UVHTTP_E_STATE (called twice, after listen, or the server is attached
 * to a loop), UVHTTP_E_CONFIG (`umask`, `descriptor_limit`, `user` or `group`), UVHTTP_E_IO or UVHTTP_E_PERMISSION
 * (`pid_file`), UVHTTP_E_ADDRESS_IN_USE (another process has locked `pid_file`), UVHTTP_E_ADDRESS or UVHTTP_E_IO
 * (the sockets of the process that this one replaces were not received) or UVHTTP_E_NOMEM. After an error
 * listen and run fail, too; uvhttp_server_error_text has the reason. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_service_init(uvhttp_server_t *server);

/** Replaces this process by a new one. Starts the file that the program was started from, which may have been replaced,
 * with the same arguments, working directory and environment. The new process gets the listening sockets and the PID
 * file. When it is ready, this server drains without a grace period, and uvhttp_server_run returns. If it exits first,
 * or is not ready within `upgrade_timeout`, it is terminated and this server continues; the log has the reason.
 *
 * Returns 0 (started; a separate thread does the rest), UVHTTP_E_INVALID (`server` is NULL), UVHTTP_E_STATE (no
 * uvhttp_service_init, the server does not run or is stopping, or an upgrade is in progress), UVHTTP_E_UNSUPPORTED
 * (/proc does not have the program's command line) or UVHTTP_E_LIMIT (no thread). Any thread, but not a signal handler.
 */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_service_upgrade(uvhttp_server_t *server);

/** Sends `state` to the service manager as one datagram: lines such as "STATUS=loading data" (sd_notify(3)). Does not
 * need uvhttp_service_init: a program with its own loop uses it for "READY=1" and the like. Returns 1 (sent), 0 (there
 * is no manager: NOTIFY_SOCKET is not set), UVHTTP_E_INVALID (`state` is NULL), UVHTTP_E_ADDRESS (NOTIFY_SOCKET is no
 * Unix address) or UVHTTP_E_IO. Any thread, not while another one changes the environment. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_service_notify(const char *state);

/** Permanently changes the user and the group of all threads of the process: supplementary groups, then group, then
 * user. Each change is verified. Arguments are names or numbers. `user` NULL or "": only the group changes. `group`
 * NULL or "": the primary group of the user. If the process already has that user and group, nothing changes. After
 * uvhttp_service_init, uvhttp_server_run does this itself.
 *
 * Returns 0, UVHTTP_E_INVALID (neither is given), UVHTTP_E_CONFIG (no such user or group, or the search for it failed),
 * UVHTTP_E_PERMISSION (not allowed, or it could be reversed) or UVHTTP_E_NOMEM; `message` (`size` bytes, may be NULL)
 * then has one line. After UVHTTP_E_PERMISSION some of the changes may have been made: exit. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_service_drop_privileges(const char *user, const char *group, char *message,
                                                                     size_t size);

UVHTTP_END_DECLS

#endif
