#include "lab/latency.h"

#include "../check.h"

#include <endian.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int new_file(const char *magic)
{
    int fd = memfd_create("latencies", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, magic, 8), 8);
    return fd;
}

/* A block whose values are count, count - 1, … 1 milliseconds. */
static void put_block(int fd, uint16_t kind, uint32_t endpoint, uint64_t count)
{
    unsigned char header[16] = {0};
    uint16_t k = htole16(kind);
    uint32_t e = htole32(endpoint);
    uint64_t c = htole64(count);
    memcpy(header + 2, &k, 2);
    memcpy(header + 4, &e, 4);
    memcpy(header + 8, &c, 8);
    assert_int_equal(write(fd, header, 16), 16);
    for (uint64_t i = count; i > 0; i--) {
        uint64_t ns = htole64(i * 1000000);
        assert_int_equal(write(fd, &ns, 8), 8);
    }
}

static double at(json_t *curve, double percentile)
{
    size_t i;
    json_t *point;
    json_array_foreach(curve, i, point)
    {
        if (json_number_value(json_array_get(point, 0)) == percentile)
            return json_number_value(json_array_get(point, 1));
    }
    return -1;
}

static void a_curve_for_each_endpoint_of_exact_percentiles(void **state)
{
    (void)state;
    int fd = new_file("DZLAT1\0");
    put_block(fd, 0, 0, 1000);
    put_block(fd, 0, 1, 10);
    json_t *curves = dz_lab_latency_curves(fd);
    assert_int_equal(json_array_size(curves), 2);
    json_t *first = json_array_get(curves, 0), *second = json_array_get(curves, 1);
    assert_true(at(first, 0) == 1 && at(first, 50) == 500 && at(first, 99) == 990);
    assert_true(at(first, 99.9) == 999 && at(first, 100) == 1000);
    assert_true(at(second, 50) == 5 && at(second, 100) == 10);
    json_decref(curves);
    close(fd);
}

static void percentiles_finer_than_one_request_are_left_out(void **state)
{
    (void)state;
    int fd = new_file("DZLAT1\0");
    put_block(fd, 0, 0, 10);
    json_t *curves = dz_lab_latency_curves(fd);
    assert_true(at(json_array_get(curves, 0), 99) == -1);
    assert_true(at(json_array_get(curves, 0), 90) == 9);
    json_decref(curves);
    close(fd);
}

static void latency_from_the_schedule_goes_before_that_from_the_send(void **state)
{
    (void)state;
    int fd = new_file("DZLAT1\0");
    put_block(fd, 0, 0, 10);
    put_block(fd, 1, 0, 20);
    json_t *curves = dz_lab_latency_curves(fd);
    assert_int_equal(json_array_size(curves), 1);
    assert_true(at(json_array_get(curves, 0), 100) == 20);
    json_decref(curves);
    close(fd);
}

static void an_endpoint_without_requests_has_an_empty_curve(void **state)
{
    (void)state;
    int fd = new_file("DZLAT1\0");
    put_block(fd, 0, 0, 0);
    json_t *curves = dz_lab_latency_curves(fd);
    assert_int_equal(json_array_size(curves), 1);
    assert_int_equal(json_array_size(json_array_get(curves, 0)), 0);
    json_decref(curves);
    close(fd);
}

static void a_file_that_is_none_or_is_cut_off_is_refused(void **state)
{
    (void)state;
    int fd = new_file("SOMETHIN");
    assert_null(dz_lab_latency_curves(fd));
    close(fd);
    fd = memfd_create("empty", MFD_CLOEXEC);
    assert_null(dz_lab_latency_curves(fd));
    close(fd);
    fd = new_file("DZLAT1\0");
    put_block(fd, 0, 0, 100);
    assert_int_equal(ftruncate(fd, 8 + 16 + 99 * 8), 0);
    assert_null(dz_lab_latency_curves(fd));
    assert_int_equal(ftruncate(fd, 8 + 7), 0);
    assert_null(dz_lab_latency_curves(fd));
    close(fd);
}

static void a_count_that_can_not_be_is_refused(void **state)
{
    (void)state;
    int fd = new_file("DZLAT1\0");
    unsigned char header[16] = {0};
    memset(header + 8, 0xff, 8);
    assert_int_equal(write(fd, header, 16), 16);
    assert_null(dz_lab_latency_curves(fd));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_curve_for_each_endpoint_of_exact_percentiles),
        cmocka_unit_test(percentiles_finer_than_one_request_are_left_out),
        cmocka_unit_test(latency_from_the_schedule_goes_before_that_from_the_send),
        cmocka_unit_test(an_endpoint_without_requests_has_an_empty_curve),
        cmocka_unit_test(a_file_that_is_none_or_is_cut_off_is_refused),
        cmocka_unit_test(a_count_that_can_not_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
