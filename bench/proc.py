"""What /proc tells about a process and its descendants."""
import os

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def _stat(pid):
    """The fields of /proc/PID/stat from the state on; None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def tree(root):
    """The process and all its descendants that are alive."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(name)):
            children.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue += children.get(pid, [])
    return found


def cpu_seconds(root):
    """User and system time used so far by the tree, threads that ended included."""
    total = 0
    for pid in tree(root):
        if fields := _stat(pid):
            total += int(fields[11]) + int(fields[12])
    return total / TICK


def rss_kb(root):
    return sum(int(fields[21]) for pid in tree(root) if (fields := _stat(pid))) * PAGE // 1024


def voluntary_switches(root):
    """How often a thread of the tree has gone to sleep, that is, was woken."""
    total = 0
    for pid in tree(root):
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except FileNotFoundError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as file:
                    total += sum(int(line.split()[1]) for line in file
                                 if line.startswith("voluntary_ctxt_switches"))
            except (FileNotFoundError, ProcessLookupError):
                pass
    return total


def machine():
    """One line: processor, cores, memory, kernel."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) / 1024 / 1024
    cores = len(os.sched_getaffinity(0))
    return f"{models[0] if models else os.uname().machine}, {cores} cores, {memory:.0f} GiB, " \
           f"Linux {os.uname().release}"
