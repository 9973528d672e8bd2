/* new_app.h: each test has an app of its own, which does not run. */
#ifndef DZ_TESTS_NEW_APP_H
#define DZ_TESTS_NEW_APP_H

#include <donmaz/app.h>

static dz_app *app;

static inline int set_up(void **state)
{
    (void)state;
    app = dz_app_new();
    return app ? 0 : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    dz_app_free(app);
    return 0;
}

#endif
