/* Owns: telling sanitizers and valgrind that a thread changes its stack. Without them everything here is nothing. May
 * include: base. */
#ifndef UVHTTP_SRC_EXEC_CORO_TOOLS_H
#define UVHTTP_SRC_EXEC_CORO_TOOLS_H

#include <stddef.h>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#ifndef __has_include
#define __has_include(header) 0
#endif

#define UVHTTP__CORO_ALIGN(size) (((size) + 63) & ~(size_t)63)

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define UVHTTP__CORO_STACK_FACTOR 4 /* frames are larger */
#define UVHTTP__ASAN_LEAVE(save, bottom, size) __sanitizer_start_switch_fiber((save), (bottom), (size))
#define UVHTTP__ASAN_ARRIVE(saved, bottom, size) __sanitizer_finish_switch_fiber((saved), (bottom), (size))
#else
#define UVHTTP__ASAN_LEAVE(save, bottom, size) ((void)(save), (void)(bottom), (void)(size))
#define UVHTTP__ASAN_ARRIVE(saved, bottom, size) ((void)(saved), (void)(bottom), (void)(size))
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define UVHTTP__CORO_STACK_FACTOR 4
#define UVHTTP__TSAN_FIBER_NEW() __tsan_create_fiber(0)
#define UVHTTP__TSAN_FIBER_FREE(fiber) __tsan_destroy_fiber(fiber)
#define UVHTTP__TSAN_FIBER_CURRENT() __tsan_get_current_fiber()
#define UVHTTP__TSAN_SWITCH(fiber) __tsan_switch_to_fiber((fiber), 0)
#else
#define UVHTTP__TSAN_FIBER_NEW() NULL
#define UVHTTP__TSAN_FIBER_FREE(fiber) ((void)(fiber))
#define UVHTTP__TSAN_FIBER_CURRENT() NULL
#define UVHTTP__TSAN_SWITCH(fiber) ((void)(fiber))
#endif

#ifndef UVHTTP__CORO_STACK_FACTOR
#define UVHTTP__CORO_STACK_FACTOR 1
#endif

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define UVHTTP__VALGRIND_STACK_REGISTER(bottom, end) ((unsigned)VALGRIND_STACK_REGISTER((bottom), (end)))
#define UVHTTP__VALGRIND_STACK_DEREGISTER(id) VALGRIND_STACK_DEREGISTER(id)
#else
#define UVHTTP__VALGRIND_STACK_REGISTER(bottom, end) ((void)(bottom), (void)(end), 0u)
#define UVHTTP__VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

#endif
