/* Owns: see log_settings.c. The public functions of uvhttp/log.h for threshold and form are there, too. */
#ifndef UVHTTP_SRC_OBS_LOG_SETTINGS_H
#define UVHTTP_SRC_OBS_LOG_SETTINGS_H

#include <uvhttp/log.h>

/* As uvhttp_log_get_level, which also reports a wrong environment. */
uvhttp_log_level_t uvhttp__log_level(void);
/* The value of UVHTTP_LOG_LEVEL if it means nothing; NULL: it does, or it was returned before. */
const char *uvhttp__log_wrong_environment(void);

/* What holds without a configuration: what the program has set, else the environment, else the default of the build. */
uvhttp_log_level_t uvhttp__log_level_default(void);
uvhttp_log_format_t uvhttp__log_format_default(void);
/* For now, and not by the program: of a configuration, or by the admin listener. */
void uvhttp__log_apply_level(uvhttp_log_level_t level);
void uvhttp__log_apply_format(uvhttp_log_format_t format);

#endif
