/* Owns: names and passwords from a file. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/plan.h"

bool users_split(char *text, char **user, char **password) {
    char *colon = strchr(text, ':');
    if (!colon || colon == text || !colon[1]) return false;
    *colon = '\0';
    *user = text;
    *password = colon + 1;
    return true;
}

void users_free(uvhttp_credential_t *users, int count) {
    for (int i = 0; i < count; i++) {
        explicit_bzero((char *)(uintptr_t)users[i].secret, strlen(users[i].secret));
        free((char *)(uintptr_t)users[i].user); /* the line of both */
    }
}

static int read_lines(FILE *in, const char *path, uvhttp_credential_t *users, size_t max, char *why, size_t size) {
    char *line = NULL;
    size_t capacity = 0;
    int number = 0, count = 0;
    bool right = true;
    while (right && getline(&line, &capacity, in) >= 0) {
        char *user, *password;
        number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (!*line || *line == '#') continue;
        char *copy = strdup(line);
        if ((size_t)count == max) {
            snprintf(why, size, "%s:%d: more than %zu users", path, number, max);
            right = false;
        } else if (!copy || !users_split(copy, &user, &password)) {
            snprintf(why, size, "%s:%d: expected USER:PASSWORD", path, number);
            right = false;
        } else {
            users[count++] = (uvhttp_credential_t){.user = user, .secret = password};
            copy = NULL;
        }
        free(copy);
    }
    if (right && ferror(in)) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        right = false;
    }
    free(line);
    if (right && count == 0) snprintf(why, size, "%s: there is no line USER:PASSWORD", path);
    if (right && count > 0) return count;
    users_free(users, count);
    return -1;
}

int users_read(const char *path, uvhttp_credential_t *users, size_t max, char *why, size_t size) {
    struct stat info;
    FILE *in = fopen(path, "re");
    if (!in) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return -1;
    }
    int count = -1;
    if (fstat(fileno(in), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & S_IROTH))
        snprintf(why, size, "%s: every user of this machine can read it: chmod o-r %s", path, path);
    else
        count = read_lines(in, path, users, max, why, size);
    fclose(in);
    return count;
}
