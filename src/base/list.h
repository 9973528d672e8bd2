/* list.h: intrusive doubly linked list. A dz_list is both the head and the link in an element; an
 * unlinked element points to itself, so removing twice is harmless. Not thread-safe. */
#ifndef DZ_BASE_LIST_H
#define DZ_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct dz_list {
    struct dz_list *next, *prev;
} dz_list;

/* The struct that holds `link` as its member `member`. */
#define DZ_CONTAINER(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void dz_list_init(dz_list *list)
{
    list->next = list->prev = list;
}

static inline bool dz_list_empty(const dz_list *list)
{
    return list->next == list;
}

/* Adds at the end; `link` must be unlinked. */
static inline void dz_list_push(dz_list *list, dz_list *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void dz_list_remove(dz_list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    dz_list_init(link);
}

/* Takes the first element off, NULL when empty. */
static inline dz_list *dz_list_shift(dz_list *list)
{
    if (dz_list_empty(list))
        return NULL;
    dz_list *first = list->next;
    dz_list_remove(first);
    return first;
}

#endif
