/* Owns: what uv.c, which has the names that the linker replaces, and guest.c need of the simulated libuv loop. */
#ifndef UVHTTP_TEST_SIM_UV_LOOP_H
#define UVHTTP_TEST_SIM_UV_LOOP_H

#include <uv.h>

#include "sim.h"

/* The loop of an application, one at a time. The seed says which release of libuv it is like. */
void sim_uv_loop_open(uv_loop_t *loop, uint64_t seed);
bool sim_uv_is_simulated(const uv_loop_t *loop);
/* Handles that have not been closed, or whose callback has yet to come. */
uint32_t sim_uv_handle_count(void);
/* Called at the end of each iteration. */
extern void (*sim_uv_iterated)(void);

void sim_uv_init(uv_handle_t *handle, uv_handle_type type, int fd);
/* Starts a prepare, check or idle handle. */
void sim_uv_start(uv_handle_t *handle, void (*cb)(uv_handle_t *handle));
void sim_uv_start_poll(uv_poll_t *handle, int events, uv_poll_cb cb);
void sim_uv_start_timer(uv_timer_t *handle, uv_timer_cb cb, uint64_t timeout_ms, uint64_t repeat_ms);
void sim_uv_set_async(uv_async_t *handle, uv_async_cb cb);
void sim_uv_send(uv_async_t *handle);
void sim_uv_stop(uv_handle_t *handle);
void sim_uv_close(uv_handle_t *handle, uv_close_cb on_closed);
void sim_uv_reference(uv_handle_t *handle, bool referenced);
bool sim_uv_is_closing(const uv_handle_t *handle);

uint64_t sim_uv_now(void);
void sim_uv_update_time(void);
bool sim_uv_alive(void);
int sim_uv_backend_timeout(void);
int sim_uv_run(uv_run_mode mode);
void sim_uv_break(void);
/* Returns 0 or UV_EBUSY. */
int sim_uv_loop_close(void);

/* --- second.c: a second server on it --- */

void sim_second_attach(uv_loop_t *loop, uint64_t seed);

/* --- visitors.c: its clients, and those of its successor --- */

/* stay: they ask several times. The first time within max_ms. */
void sim_visitors_invite(uint64_t seed, uint32_t count, uint32_t max_ms, bool stay);
/* The last of these servers is about to stop: who has no response from here on may get none. */
void sim_visitors_stop(void);

#endif
