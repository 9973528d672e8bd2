/* form.h: multipart/form-data bodies from autocannon's -F description. */
#ifndef DZ_LOAD_FORM_H
#define DZ_LOAD_FORM_H

#include <donmaz/buf.h>

#include <stddef.h>

/* `description` is JSON, or the path of a JSON file: {"field": {"type": "text", "value": "..."},
 * "other": {"type": "file", "path": "...", "options": {"filename": "...", "filepath": "..."}}}.
 * Appends the body and writes its Content-Type. 0, DZ_E_NOMEM, or DZ_E_FORMAT with the reason in
 * `why`. */
int load_form_build(const char *description, dz_buf *body, char *content_type, size_t type_size,
                    char *why, size_t why_size);

#endif
