/* Owns: see log_settings.c. The public functions of uvhttp/log.h for threshold and form are there, too. */
#ifndef UVHTTP_SRC_OBS_LOG_SETTINGS_H
#define UVHTTP_SRC_OBS_LOG_SETTINGS_H

#include <uvhttp/log.h>

/* As uvhttp_log_get_level, which also reports a wrong environment. */
uvhttp_log_level_t uvhttp__log_level(void);
/* The value of UVHTTP_LOG_LEVEL if it means nothing; NULL: it does, or it was returned before. */
const char *uvhttp__log_wrong_environment(void);

#endif
