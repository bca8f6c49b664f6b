/* Owns: annotations for sanitizers: AddressSanitizer poisons unused bytes of a pool, slab or arena, and ThreadSanitizer
 * learns of transfers of memory that it cannot see. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_SANITIZE_H
#define UVHTTP_SRC_BASE_SANITIZE_H

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define UVHTTP__POISON(memory, size) __asan_poison_memory_region((memory), (size))
#define UVHTTP__UNPOISON(memory, size) __asan_unpoison_memory_region((memory), (size))
#else
#define UVHTTP__POISON(memory, size) ((void)(memory), (void)(size))
#define UVHTTP__UNPOISON(memory, size) ((void)(memory), (void)(size))
#endif

/* A release in one thread happens before a later acquire of the same object in another one. */
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define UVHTTP__TSAN_RELEASE(object) __tsan_release(object)
#define UVHTTP__TSAN_ACQUIRE(object) __tsan_acquire(object)
#else
#define UVHTTP__TSAN_RELEASE(object) ((void)(object))
#define UVHTTP__TSAN_ACQUIRE(object) ((void)(object))
#endif

#endif
