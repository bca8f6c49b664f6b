/* What is served: sites, their directories, and addresses. The command line makes one site, a file any number. */
#ifndef UVHTTP_CLI_PLAN_H
#define UVHTTP_CLI_PLAN_H

#include <uvhttp.h>

#define SITES_MAX 64
#define MOUNTS_MAX 32
#define FIELDS_MAX 32
#define REDIRECTS_MAX 128
#define LISTENERS_MAX 16
#define USERS_MAX 64

/* Where something was written, for messages. */
typedef struct place {
    int line, column; /* of the file, from 1; 0: on the command line */
} place_t;

/* How a directory is served. Texts live as long as the program. */
typedef struct files {
    char *root;
    char *fallback;        /* below the root; NULL: none */
    unsigned long max_age; /* seconds; NO_MAX_AGE: clients ask each time */
    bool spa, listing, dot_files, symlinks;
} files_t;
#define NO_MAX_AGE ((unsigned long)-1)

typedef struct mount {
    place_t place;
    char *prefix; /* "/" or "/assets" */
    size_t prefix_size;
    files_t files;
    uvhttp_static_files_t *opened;
} mount_t;

typedef struct field {
    place_t place;
    char *name, *value;
} field_t;

typedef struct redirect {
    place_t place;
    char *from, *to; /* a '*' at the end of both stands for the rest */
    int status;
} redirect_t;

typedef struct site {
    place_t place;
    char hosts[2048]; /* with commas between; "": any */
    files_t files;    /* of "/", and the defaults of its mounts */
    mount_t mounts[MOUNTS_MAX];
    size_t mount_count;
    field_t fields[FIELDS_MAX];
    size_t field_count;
    redirect_t redirects[REDIRECTS_MAX];
    size_t redirect_count;
    char *user, *password; /* one, of the command line */
    char *users_file;
    char *cors;
    bool gzip, https_only;
} site_t;

typedef struct listener {
    place_t place;
    char *address;
    uint16_t port; /* once it listens; 0: it has none */
    bool tls;
} listener_t;

typedef struct plan {
    const char *file; /* NULL: there is none */
    site_t *sites[SITES_MAX];
    size_t site_count;
    listener_t listeners[LISTENERS_MAX];
    size_t listener_count;
    bool has_tls;
    uint16_t https_port; /* that plain requests are sent to; known when all addresses are; 0: none has a port */
    unsigned problems;
    int status; /* of the program because of them: 1 cannot serve, 2 usage */
} plan_t;

/* Says what is wrong, with file and line; counts it. */
void plan_problem(plan_t *plan, place_t place, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* --- plan_file.c --- The names of a configuration file that are not the server's: listen, sites. */
extern const char *const plan_names[];
/* Adds the sites and listeners of plan->file; `initial` has what a site is without words of its own. Problems are said,
 * each. */
void plan_read_file(plan_t *plan, const site_t *initial);

/* --- plan_check.c --- */
/* What can be said without a server: paths, fields, redirects, hosts. */
void plan_check(plan_t *plan);
/* Whether the address is one that only programs of this machine reach. */
bool plan_is_loopback(const char *address);

/* --- plan_serve.c --- */
/* Middleware and directories of all sites; the reason of a failure is logged. */
bool plan_add(plan_t *plan, uvhttp_server_t *server, bool any_host);

/* --- redirect.c --- */
/* The Location of a request that the redirect fits, in the request's memory; NULL: it does not, or no memory. */
char *redirect_location(const redirect_t *redirect, uvhttp_request_t *req);
/* The same for the same target on https; port 0: the usual one. */
char *redirect_to_https(uvhttp_request_t *req, uint16_t port);

/* --- users.c --- */
/* Reads "USER:PASSWORD" lines. Returns how many, or -1 after a message in `why`. */
int users_read(const char *path, uvhttp_credential_t *users, size_t max, char *why, size_t size);
/* What users_read has read. */
void users_free(uvhttp_credential_t *users, int count);
/* "USER:PASSWORD" in two; false: there is no colon, or nothing on one of its sides. */
bool users_split(char *text, char **user, char **password);

#endif
