/* Owns: telling AddressSanitizer which bytes of a pool, slab or arena nobody may touch. May include: nothing. */
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

#endif
