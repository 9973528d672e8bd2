/* page.h: the live page, embedded from web/live/. */
#ifndef DZ_OPS_PAGE_H
#define DZ_OPS_PAGE_H

#include <stddef.h>

extern const char dz_live_html[], dz_live_js[], dz_live_css[];
extern const size_t dz_live_html_len, dz_live_js_len, dz_live_css_len;

#endif
