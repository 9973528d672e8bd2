/* donmaz.h: HTTP services whose event loop does not freeze. Includes everything. */
#ifndef DONMAZ_H
#define DONMAZ_H

#include <donmaz/app.h>
#include <donmaz/buf.h>
#include <donmaz/compress.h>
#include <donmaz/conditional.h>
#include <donmaz/csv.h>
#include <donmaz/error.h>
#include <donmaz/http.h>
#include <donmaz/json.h>
#include <donmaz/log.h>
#include <donmaz/metrics.h>
#include <donmaz/pool.h>
#include <donmaz/redis.h>
#include <donmaz/request.h>
#include <donmaz/response.h>
#include <donmaz/shed.h>
#include <donmaz/slice.h>
#include <donmaz/static.h>
#include <donmaz/utf8.h>

#endif
