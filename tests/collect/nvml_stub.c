/* A stand-in for libnvidia-ml.so.1 whose answers stand in a text file, which is read anew whenever it changed.
 *
 * Each line of the script is one of
 *   count N                      GPUs that are there when the library is initialised
 *   epoch N                      after a change every call fails until the library is initialised anew
 *   init CODE                    initialising fails with this code
 *   [@TIME] GPU KEY VALUE...     what a GPU answers (GPU: 0, 0.2 for the slice at place 2 of it, or * for all)
 * A later line goes before an earlier one, an exact GPU before *. With @TIME (seconds since 1970) a line only
 * counts from then on. KEY is a function's name without "nvmlDevice" and "Get", with a dot and its argument where
 * it has one (ClockInfo.1), Field.ID or Field.ID.SCOPE, or "all". VALUE is one number after another, "error CODE",
 * or "hang": that call never returns. A number may carry its type as a field value: ui:5, ul:, ull:, sll:, si:-8,
 * us:, d:nan. What no line answers is not supported.
 *
 * The script's path is the variable NVML_STUB_SCRIPT at initialisation, or what nvml_stub_use was given.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, NO_DRIVER = 9,
       TIMED_OUT = 10, UNKNOWN = 999 };
enum { MAX_GPUS = 16, MAX_SLICES = 8, MAX_LINES = 20000, MAX_VALUES = 24, BUCKETS = 1024 };

typedef struct { int gpu, slice; } Device;                 /* slice -1: the GPU itself */
typedef struct { int gpu, slice, error, hang, count, next; double from; char key[48]; char *values[MAX_VALUES]; } Line;
typedef struct { Device *device; int delivered; } EventSet;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char path[4096];
static struct stat loaded;
static Line *lines;
static int buckets[BUCKETS];                               /* last line with such a key, its predecessor in next */
static int line_count, users, gpus, epoch, known_epoch, scripted_count, init_error;
static volatile int run;                                    /* calls that hang in an earlier run are let go */
static Device devices[MAX_GPUS][1 + MAX_SLICES];

static void forget(void) {
    for (int i = 0; i < line_count; i++)
        for (int v = 0; v < lines[i].count; v++) free(lines[i].values[v]);
    line_count = 0;
    memset(buckets, -1, sizeof buckets);
    scripted_count = epoch = init_error = 0;
}

static unsigned hash(const char *text) {
    unsigned value = 5381;
    while (*text) value = value * 33 + (unsigned char)*text++;
    return value % BUCKETS;
}

static void parse(char *text) {
    char *rest, *words[MAX_VALUES + 4];
    int n = 0;
    for (char *word = strtok_r(text, " \t\n", &rest); word && n < MAX_VALUES + 4; word = strtok_r(NULL, " \t\n", &rest))
        words[n++] = word;
    if (n == 0) return;
    if (n == 2 && !strcmp(words[0], "count")) { scripted_count = atoi(words[1]); return; }
    if (n == 2 && !strcmp(words[0], "epoch")) { epoch = atoi(words[1]); return; }
    if (n == 2 && !strcmp(words[0], "init")) { init_error = atoi(words[1]); return; }
    int at = words[0][0] == '@';
    if (n < at + 3 || line_count == MAX_LINES) return;
    Line *line = &lines[line_count++];
    memset(line, 0, sizeof *line);
    line->from = at ? atof(words[0] + 1) : 0;
    char *dot = strchr(words[at], '.');
    line->gpu = words[at][0] == '*' ? -1 : atoi(words[at]);
    line->slice = dot ? atoi(dot + 1) : -1;
    snprintf(line->key, sizeof line->key, "%s", words[at + 1]);
    line->next = buckets[hash(line->key)];
    buckets[hash(line->key)] = line_count - 1;
    if (!strcmp(words[at + 2], "hang")) line->hang = 1;
    else if (!strcmp(words[at + 2], "error")) line->error = n > at + 3 ? atoi(words[at + 3]) : UNKNOWN;
    else for (int i = at + 2; i < n; i++) line->values[line->count++] = strdup(words[i]);
}

static void load(void) {
    static double last;
    struct stat now;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    double moment = time.tv_sec + time.tv_nsec / 1e9;
    if (line_count && moment - last < 2e-4) return;          /* no script is written that fast */
    last = moment;
    if (!path[0] || stat(path, &now)) { forget(); return; }
    if (line_count && now.st_ino == loaded.st_ino && now.st_size == loaded.st_size &&
        now.st_mtim.tv_nsec == loaded.st_mtim.tv_nsec && now.st_mtim.tv_sec == loaded.st_mtim.tv_sec) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    if (!lines) lines = calloc(MAX_LINES, sizeof *lines);
    forget();
    loaded = now;
    char text[1024];
    while (fgets(text, sizeof text, file)) parse(text);
    fclose(file);
}

static const Line *find(const Device *device, const char *key) {
    const Line *best = NULL;
    for (int i = line_count ? buckets[hash(key)] : -1; i >= 0; i = lines[i].next) {
        const Line *line = &lines[i];
        if (strcmp(line->key, key) || line->slice != device->slice) continue;
        if (line->gpu != device->gpu && line->gpu != -1) continue;
        if (line->from > 0) {
            struct timespec time;
            clock_gettime(CLOCK_REALTIME, &time);
            if (line->from > time.tv_sec + time.tv_nsec / 1e9) continue;
        }
        if (!best || line->gpu > best->gpu) best = line;
    }
    return best;
}

/* Copy what a device answers to a key; a call that is to hang does so here, holding nothing. */
static int ask(const Device *device, const char *key, Line *answer) {
    pthread_mutex_lock(&lock);
    load();
    int code = SUCCESS, began = run;
    const Line *line = NULL;
    if (!users || known_epoch != epoch) code = UNINITIALIZED;
    else if (!device || device->gpu >= gpus) code = INVALID;
    else {
        Device whole = { device->gpu, -1 };
        line = find(&whole, "all");
        if (!line) line = find(device, key);
        if (!line) code = NOT_SUPPORTED;
        else if (line->error) code = line->error;
    }
    int hang = line && line->hang;
    if (line && !hang && !code) *answer = *line;
    pthread_mutex_unlock(&lock);
    while (hang && run == began) usleep(20000);
    return hang ? UNKNOWN : code;
}

static uint64_t number(const char *text, int *type) {
    static const char *names[] = { "d:", "ui:", "ul:", "ull:", "sll:", "si:", "us:" };
    *type = 3;
    for (int i = 0; i < 7; i++)
        if (!strncmp(text, names[i], strlen(names[i]))) { *type = i; text += strlen(names[i]); break; }
    uint64_t bits = 0;
    if (*type == 0) { double value = atof(text); memcpy(&bits, &value, 8); }
    else if (text[0] == '-') bits = (uint64_t)strtoll(text, NULL, 0);
    else bits = strtoull(text, NULL, 0);
    return bits;
}

/* Answer with up to `count` numbers. */
static int numbers(const Device *device, const char *key, int count, uint64_t *out) {
    Line answer;
    int type, code = ask(device, key, &answer);
    for (int i = 0; code == SUCCESS && i < count; i++) out[i] = i < answer.count ? number(answer.values[i], &type) : 0;
    return code;
}

static int numbers_of(const Device *device, const char *key, unsigned a, int count, uint64_t *out) {
    char full[64];
    snprintf(full, sizeof full, "%s.%u", key, a);
    return numbers(device, full, count, out);
}

static int text(const Device *device, const char *key, char *out, unsigned size) {
    Line answer;
    int code = ask(device, key, &answer);
    if (code) return code;
    out[0] = 0;
    for (int i = 0; i < answer.count; i++) {
        if (i) strncat(out, " ", size - strlen(out) - 1);
        strncat(out, answer.values[i], size - strlen(out) - 1);
    }
    return SUCCESS;
}

/* ---- the library ---- */

void nvml_stub_use(const char *script) {
    pthread_mutex_lock(&lock);
    snprintf(path, sizeof path, "%s", script);
    forget();
    users = 0;
    run++;
    pthread_mutex_unlock(&lock);
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    const char *script = getenv("NVML_STUB_SCRIPT");
    if (!path[0] && script) snprintf(path, sizeof path, "%s", script);
    load();
    int code = !path[0] ? NO_DRIVER : init_error;
    if (!code && !users++) {
        known_epoch = epoch;
        gpus = scripted_count > MAX_GPUS ? MAX_GPUS : scripted_count;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    int code = users ? SUCCESS : UNINITIALIZED;
    if (users) users--;
    pthread_mutex_unlock(&lock);
    return code;
}

const char *nvmlErrorString(int code) {
    switch (code) {
        case UNINITIALIZED: return "Uninitialized";
        case NOT_SUPPORTED: return "Not Supported";
        case NO_DRIVER: return "Driver Not Loaded";
        case 15: return "GPU is lost";
        case 16: return "GPU requires reset";
        case 18: return "Driver/library version mismatch";
        default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) { snprintf(out, size, "590.48.01"); return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    pthread_mutex_lock(&lock);
    load();
    int code = users && known_epoch == epoch ? SUCCESS : UNINITIALIZED;
    *count = gpus;
    pthread_mutex_unlock(&lock);
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    if (index >= MAX_GPUS) return INVALID;
    Device *device = devices[index];
    device->gpu = index;
    device->slice = -1;
    Line answer;
    int code = ask(device, "HandleByIndex", &answer);
    *out = device;
    return code == NOT_SUPPORTED ? SUCCESS : code;
}

int nvmlDeviceGetUUID(Device *d, char *out, unsigned size) { return text(d, "UUID", out, size); }
int nvmlDeviceGetName(Device *d, char *out, unsigned size) { return text(d, "Name", out, size); }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *d, Pci *out) { return text(d, "PciInfo", out->bus_id, sizeof out->bus_id); }

#define UINT(NAME) \
    int nvmlDeviceGet##NAME(Device *d, unsigned *out) { uint64_t v; int code = numbers(d, #NAME, 1, &v); \
        return code ? code : (*out = (unsigned)v, SUCCESS); }
#define UINT_OF(NAME) \
    int nvmlDeviceGet##NAME(Device *d, unsigned a, unsigned *out) { uint64_t v; \
        int code = numbers_of(d, #NAME, a, 1, &v); \
        return code ? code : (*out = (unsigned)v, SUCCESS); }
#define ULL(NAME) \
    int nvmlDeviceGet##NAME(Device *d, uint64_t *out) { return numbers(d, #NAME, 1, out); }
#define UINT_PAIR(NAME) \
    int nvmlDeviceGet##NAME(Device *d, unsigned *a, unsigned *b) { uint64_t v[2]; int code = numbers(d, #NAME, 2, v); \
        if (!code) { *a = (unsigned)v[0]; *b = (unsigned)v[1]; } return code; }
#define PROCESSES(NAME, KEY) \
    int nvmlDeviceGet##NAME(Device *d, unsigned *count, void *out) { uint64_t v; int code = numbers(d, KEY, 1, &v); \
        (void)out; if (code) return code; unsigned room = *count; *count = (unsigned)v; return v > room ? SMALL : SUCCESS; }

UINT(PowerUsage) UINT(EnforcedPowerLimit) UINT(FanSpeed) UINT(PerformanceState) UINT(CurrPcieLinkGeneration)
UINT(CurrPcieLinkWidth) UINT(MaxPcieLinkGeneration) UINT(MaxPcieLinkWidth) UINT(PcieReplayCounter) UINT(PersistenceMode)
UINT(ComputeMode) UINT(MaxMigDeviceCount) UINT(GpuInstanceId) UINT(ComputeInstanceId) UINT(Index)
UINT_OF(ClockInfo) UINT_OF(MaxClockInfo) UINT_OF(Temperature) UINT_OF(TemperatureThreshold) UINT_OF(PcieThroughput)
UINT_OF(NvLinkState)
ULL(CurrentClocksThrottleReasons) ULL(TotalEnergyConsumption) ULL(SupportedEventTypes)
UINT_PAIR(EncoderUtilization) UINT_PAIR(DecoderUtilization) UINT_PAIR(MigMode)
PROCESSES(ComputeRunningProcesses_v2, "ComputeRunningProcesses")
PROCESSES(GraphicsRunningProcesses_v2, "GraphicsRunningProcesses")

int nvmlDeviceGetUtilizationRates(Device *d, unsigned *out) {
    uint64_t v[2];
    int code = numbers(d, "UtilizationRates", 2, v);
    if (!code) { out[0] = (unsigned)v[0]; out[1] = (unsigned)v[1]; }
    return code;
}

/* total, free, used; and in version 2: version, total, reserved, free, used */
int nvmlDeviceGetMemoryInfo(Device *d, uint64_t *out) {
    uint64_t v[4];
    int code = numbers(d, "MemoryInfo", 4, v);
    if (!code) { out[0] = v[0]; out[1] = v[2]; out[2] = v[3]; }
    return code;
}

int nvmlDeviceGetBAR1MemoryInfo(Device *d, uint64_t *out) { return numbers(d, "BAR1MemoryInfo", 3, out); }

int nvmlDeviceGetMemoryErrorCounter(Device *d, unsigned kind, unsigned counter, unsigned where, uint64_t *out) {
    char key[64];
    snprintf(key, sizeof key, "MemoryErrorCounter.%u.%u.%u", kind, counter, where);
    return numbers(d, key, 1, out);
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned place, Device **out) {
    uint64_t ids[2];
    if (place >= MAX_SLICES) return INVALID;
    Device *slice = &devices[d->gpu][1 + place];
    slice->gpu = d->gpu;
    slice->slice = place;
    int code = numbers(slice, "GpuInstanceId", 1, ids);
    *out = slice;
    return code == NOT_SUPPORTED ? NOT_FOUND : code;
}

int nvmlEventSetCreate(EventSet **out) {
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(Device *d, uint64_t types, EventSet *set) {
    (void)types;
    set->device = d;
    return SUCCESS;
}

int nvmlEventSetFree(EventSet *set) { free(set); return SUCCESS; }

typedef struct { Device *device; uint64_t type, data; unsigned gpu_instance, compute_instance; } Event;
int nvmlEventSetWait_v2(EventSet *set, Event *out, unsigned milliseconds) {
    Line answer;
    int type, code = ask(set->device, "Xid", &answer);
    if (code == NOT_SUPPORTED || (code == SUCCESS && set->delivered >= answer.count)) {
        usleep(milliseconds * 1000);
        return TIMED_OUT;
    }
    if (code) return code;
    memset(out, 0, sizeof *out);
    out->device = set->device;
    out->type = 8;
    out->data = number(answer.values[set->delivered++], &type);
    return SUCCESS;
}

#ifndef NVML_STUB_OLD /* what libraries of a few years ago do not have */
ULL(CurrentClocksEventReasons)
UINT_PAIR(JpgUtilization) UINT_PAIR(OfaUtilization)
PROCESSES(ComputeRunningProcesses_v3, "ComputeRunningProcesses")
PROCESSES(GraphicsRunningProcesses_v3, "GraphicsRunningProcesses")

int nvmlDeviceGetMemoryInfo_v2(Device *d, uint64_t *out) {
    if ((unsigned)out[0] != 0x02000028) return 25;
    return numbers(d, "MemoryInfo", 4, out + 1);
}

int nvmlDeviceGetMarginTemperature(Device *d, int *out) {
    uint64_t v;
    if (out[0] != 0x01000008) return 25;
    int code = numbers(d, "MarginTemperature", 1, &v);
    if (!code) out[1] = (int)v;
    return code;
}

typedef struct { unsigned id, scope; int64_t time, latency; unsigned type, code; uint64_t value; } Field;
int nvmlDeviceGetFieldValues(Device *d, int count, Field *fields) {
    for (int i = 0; i < count; i++) {
        char key[64];
        Line answer;
        int type = 0;
        if (fields[i].scope) snprintf(key, sizeof key, "Field.%u.%u", fields[i].id, fields[i].scope);
        else snprintf(key, sizeof key, "Field.%u", fields[i].id);
        int code = ask(d, key, &answer);
        if (code == UNINITIALIZED || code == INVALID || code == 15) return code;   /* of the whole call */
        fields[i].code = code;
        fields[i].value = code ? 0 : number(answer.values[0], &type);
        fields[i].type = code ? 0 : type;
    }
    return SUCCESS;
}
#endif
