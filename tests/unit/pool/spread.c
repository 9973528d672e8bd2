#include "pool/spread.h"

#include "../check.h"

#include <sched.h>
#include <unistd.h>

/* Cores that may not exist: affinity is only asked for and written down. */
static cpu_set_t allowed;
static struct {
    pid_t id;
    cpu_set_t set;
} moves[8];
static size_t move_count;

int __wrap_sched_getaffinity(pid_t id, size_t size, cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t id, size_t size, const cpu_set_t *set);
int __real_sched_setaffinity(pid_t id, size_t size, const cpu_set_t *set);

int __wrap_sched_getaffinity(pid_t id, size_t size, cpu_set_t *set)
{
    (void)id, (void)size;
    *set = allowed;
    return 0;
}

int __wrap_sched_setaffinity(pid_t id, size_t size, const cpu_set_t *set)
{
    (void)size;
    assert_true(move_count < sizeof moves / sizeof moves[0]);
    moves[move_count].id = id;
    moves[move_count++].set = *set;
    return 0;
}

typedef struct member {
    dz_spread_member it;
    _Atomic uint32_t core;
} member;

static dz_spread spread;
static uint32_t here, elsewhere;

/* This thread stays where it is, so that "here" stays true. */
static int set_up(void **state)
{
    (void)state;
    here = (uint32_t)sched_getcpu();
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(here, &only);
    elsewhere = here + 1;
    move_count = 0;
    CPU_ZERO(&allowed);
    CPU_SET(here, &allowed);
    CPU_SET(elsewhere, &allowed);
    dz_spread_init(&spread);
    return __real_sched_setaffinity(0, sizeof only, &only);
}

static int tear_down(void **state)
{
    (void)state;
    dz_spread_destroy(&spread);
    return 0;
}

static void add(member *it, dz_spread_kind kind, pid_t id, uint32_t core)
{
    *it = (member){.it.id = id, .core = core};
    it->it.core = &it->core;
    dz_list_init(&it->it.link);
    dz_list_push(&spread.members[kind], &it->it.link);
}

static void enter_and_leave(dz_spread_kind kind)
{
    dz_spread_member self;
    dz_spread_enter(&spread, kind, &self);
    if (!self.core)
        skip(); /* no restartable sequences: an old libc, or valgrind */
    assert_int_equal(*self.core, here);
    assert_false(dz_list_empty(&spread.members[kind]));
    dz_spread_leave(&spread, &self);
}

static void assert_moved(size_t move, pid_t id, uint32_t core)
{
    assert_int_equal(moves[move].id, id);
    assert_int_equal(CPU_COUNT(&moves[move].set), 1);
    assert_true(CPU_ISSET(core, &moves[move].set));
    assert_int_equal(moves[move + 1].id, id); /* and is free to leave again */
    assert_true(CPU_EQUAL(&moves[move + 1].set, &allowed));
}

static void one_alone_stays(void **state)
{
    (void)state;
    enter_and_leave(DZ_SPREAD_LIGHT);
    enter_and_leave(DZ_SPREAD_LOWERED);
    assert_int_equal(move_count, 0);
    assert_true(dz_list_empty(&spread.members[DZ_SPREAD_LIGHT]));
    assert_true(dz_list_empty(&spread.members[DZ_SPREAD_LOWERED]));
}

static void two_of_a_kind_part(void **state)
{
    (void)state;
    member other, heavy;
    add(&other, DZ_SPREAD_LIGHT, 1, here);
    add(&heavy, DZ_SPREAD_LOWERED, 2, elsewhere); /* a core with a lowered one is still better */
    enter_and_leave(DZ_SPREAD_LIGHT);
    assert_int_equal(move_count, 2);
    assert_moved(0, gettid(), elsewhere);
}

static void with_as_many_of_its_kind_the_other_kind_decides(void **state)
{
    (void)state;
    member heavy;
    add(&heavy, DZ_SPREAD_LOWERED, 1, here);
    enter_and_leave(DZ_SPREAD_LIGHT);
    assert_int_equal(move_count, 2);
    assert_moved(0, gettid(), elsewhere);
}

static void nobody_moves_to_an_equal_core(void **state)
{
    (void)state;
    member a, b;
    add(&a, DZ_SPREAD_LOWERED, 1, here);
    add(&b, DZ_SPREAD_LOWERED, 2, elsewhere);
    enter_and_leave(DZ_SPREAD_LOWERED);
    enter_and_leave(DZ_SPREAD_LIGHT);
    assert_int_equal(move_count, 0);
}

static void nobody_moves_to_a_core_that_is_not_allowed(void **state)
{
    (void)state;
    CPU_CLR(elsewhere, &allowed);
    member a;
    add(&a, DZ_SPREAD_LOWERED, 1, here);
    enter_and_leave(DZ_SPREAD_LOWERED);
    assert_int_equal(move_count, 0);
}

static void a_light_one_parts_lowered_ones_that_drifted_together(void **state)
{
    (void)state;
    member a, b;
    add(&a, DZ_SPREAD_LOWERED, 1, elsewhere);
    add(&b, DZ_SPREAD_LOWERED, 2, elsewhere);
    enter_and_leave(DZ_SPREAD_LIGHT);
    assert_int_equal(move_count, 2);
    assert_moved(0, 1, here);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_alone_stays),
        TEST(two_of_a_kind_part),
        TEST(with_as_many_of_its_kind_the_other_kind_decides),
        TEST(nobody_moves_to_an_equal_core),
        TEST(nobody_moves_to_a_core_that_is_not_allowed),
        TEST(a_light_one_parts_lowered_ones_that_drifted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
