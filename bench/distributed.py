#!/usr/bin/python3
"""Two ranks beside PyTorch's DistributedDataParallel on gloo: the same models, the same two cores,
the same link, in turns. Run it as

    bazel run //bench:distributed -- [--mpi openmpi] [--rounds 3] [PART...]

Parts:
- links: step times, their forecasts, and bytes at several rates;
- homes: equal computation and communication, by a ring, and with sharded optimizer states or
  parameters;
- processes: ranks compared with devices of one process, and one rank compared with no launcher;
- lost: time until a killed or stopped rank is reported.

Links are two network namespaces, joined by a pair of virtual interfaces with a token bucket at each
end. They require root, iproute2 and tc; without these only the loopback is measured. Figures are
medians of the rounds' medians, ratios medians of the rounds' ratios. Without PyTorch only Tandem is
measured.
"""
import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import measure  # noqa: E402

RATES = {"50 Mbit/s": 50, "200 Mbit/s": 200, "1,000 Mbit/s": 1000}
ADDRESSES = ("10.77.0.1", "10.77.0.2")
PARAMETER_BYTES = {"main": 98844, "cnn": 246824, "balanced": 8425512}
EAGER_BYTES = 256 << 10  # MPIs send so much over TCP without asking first, as tandem launch has it
RUN_SECONDS = 2  # duration of the timed steps, about
TIMEOUT = 240


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench/distributed_rows, built")
    parser.add_argument("--peer", required=True, help="bench/peers/distributed.py")
    parser.add_argument("--plugins", required=True, nargs="+",
                        help="the plug-ins for MPIs, built; other files are passed over")
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], default="openmpi")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--burst", default="16kb",
                        help="what a link that has rested lets pass at once, as tc says it")
    parser.add_argument("--eager", type=int, default=EAGER_BYTES,
                        help="bytes that the MPI sends over TCP without asking first")
    parser.add_argument("--models", default="main,cnn,balanced", help="of the part links")
    parser.add_argument("--layers", default="8,16,24", help="of models of the part homes")
    parser.add_argument("--realtime", action="store_true",
                        help="run all of them in a real-time class (root; busy machines)")
    parser.add_argument("parts", nargs="*", metavar="PART",
                        help="links, homes, processes, lost; none: all")
    given = parser.parse_args()
    given.models = given.models.split(",")
    given.layers = [int(layers) for layers in given.layers.split(",")]
    given.parts = given.parts or ["links", "homes", "processes", "lost"]
    given.plugins = [path for path in given.plugins if path.endswith("_%s.so" % given.mpi)]
    if not given.plugins:
        sys.exit("the plug-in for %s was not built: its headers are not there" % given.mpi)
    return given


# ---- Where ranks run ----

def system(*words):
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


class Link:
    """Two network namespaces with a link between them. If rate is None, only the machine itself."""

    def __init__(self, rate, burst):
        self.burst = burst
        self.names = [] if rate is None else ["tdm%s%d" % (end, os.getpid()) for end in "AB"]
        self.rate = rate
        self.folder = tempfile.mkdtemp()

    def inside(self, rank):
        """Returns the words that run a command in a rank's namespace, on its own core."""
        words = ["ip", "netns", "exec", self.names[rank]] if self.names else []
        return words + ["taskset", "-c", str(rank)]

    def write_agent(self):
        """Writes a replacement for ssh: launchers call it with options, a host, and a command."""
        path = os.path.join(self.folder, "agent")
        with open(path, "w", encoding="ascii") as handle:
            handle.write("#!/bin/bash\nwhile [[ \"$1\" == -* ]]; do shift; done\n"
                         "case $1 in %s) at='%s' ;; *) at='%s' ;; esac\nshift\n"
                         "[ $# -eq 0 ] || exec $at /bin/bash -c \"$*\"\n"
                         % (ADDRESSES[0], " ".join(self.inside(0)), " ".join(self.inside(1))))
        os.chmod(path, 0o755)
        return path

    def make(self):
        ends = ["v%s%d" % (end, os.getpid()) for end in "ab"]
        for name in self.names:
            system("ip", "netns", "add", name)
        system("ip", "link", "add", ends[0], "netns", self.names[0], "type", "veth",
               "peer", "name", ends[1], "netns", self.names[1])
        for name, end, address in zip(self.names, ends, ADDRESSES):
            system("ip", "-n", name, "addr", "add", address + "/24", "dev", end)
            for device in ("lo", end):
                system("ip", "-n", name, "link", "set", device, "up")
            if self.rate:
                system("tc", "-n", name, "qdisc", "add", "dev", end, "root", "tbf",
                       "rate", "%dmbit" % self.rate, "burst", self.burst, "latency", "50ms")
        for name, end in zip(self.names, ends):  # the kernel takes a link into use a little later
            while system("ip", "netns", "exec", name, "cat",
                         "/sys/class/net/%s/operstate" % end).strip() != "up":
                time.sleep(0.02)

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def link_of(rate, burst="64kb"):
    link = Link(rate, burst)
    try:
        if link.names:
            link.make()
        yield link
    finally:
        link.remove()


def can_make_links():
    return os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc")


# ---- Programs ----

def launch_words(mpi, link, ranks, eager=EAGER_BYTES):
    """Returns the beginning of the command line of a job."""
    agent = link.write_agent() if link.names else None
    if mpi == "mpich":
        words = ["mpiexec.mpich", "-disable-auto-cleanup", "-n", str(ranks)]
        if not agent:  # one rank has all cores, as it has without a launcher
            return words + ["-bind-to", "core" if ranks > 1 else "none"]
        return link.inside(0) + words + [
            "-launcher", "ssh", "-launcher-exec", agent, "-hosts", ",".join(ADDRESSES),
            "-ppn", "1"]
    words = ["mpirun.openmpi", "--enable-recovery", "-n", str(ranks)]
    if not agent:
        return words + ["--bind-to", "core" if ranks > 1 else "none"]
    words += ["--bind-to", "none", "--mca", "plm_rsh_agent", agent, "--mca", "pml", "ob1",
              "--mca", "btl", "tcp,self", "-H", ",".join(ADDRESSES)]
    for layer in ("btl_tcp", "oob_tcp"):
        words += ["--mca", layer + "_if_include", "10.77.0.0/24"]
    for limit in ("eager_limit", "rndv_eager_limit"):
        words += ["--mca", "btl_tcp_" + limit, str(eager)]
    for name in ("TANDEM_NET_PATH", "TANDEM_LINKS"):
        words += ["-x", name]
    if "TANDEM_NET_SILENCE_SECONDS" in os.environ:
        words += ["-x", "TANDEM_NET_SILENCE_SECONDS"]
    return link.inside(0) + words


def our_environment(given, link):
    kept = dict(os.environ, TANDEM_NET_PATH=os.path.dirname(os.path.abspath(given.plugins[0])),
                TANDEM_LINKS=os.path.join(link.folder, "links.json"),
                OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if link.names:  # both MPIs find memory that the two namespaces share
        kept["UCX_TLS"] = "tcp,self"
    kept["UCX_RNDV_THRESH"] = str(given.eager)
    return kept


def read_rows(text):
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


def finish(process, words):
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit("%s\ndid not end" % " ".join(words))
    return process.returncode, out, err


def start(given, words, environment):
    return subprocess.Popen(measure.command(words, given.realtime), env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_ours(given, link, words, ranks=2, launched=True, may_fail=False):
    """The rows that rank 0 prints."""
    program = [os.path.abspath(given.program)] + words
    line = (launch_words(given.mpi, link, ranks, given.eager) if launched else []) + program
    code, out, err = finish(start(given, line, our_environment(given, link)), line)
    if code != 0 and not may_fail:
        sys.exit("%s\nended with %d: %s%s" % (" ".join(line), code, out, err))
    rows = read_rows(out)
    if not rows and not may_fail:
        sys.exit("%s\nended without a row: %s%s" % (" ".join(line), out, err))
    return rows


def run_alone(given, link, words):
    """A rank's part in a process of its own, on one core, as a rank has."""
    program = link.inside(0) + [os.path.abspath(given.program)] + words + ["--alone"]
    code, out, err = finish(start(given, program, our_environment(given, link)), program)
    if code != 0:
        sys.exit("%s\nended with %d: %s%s" % (" ".join(program), code, out, err))
    return read_rows(out)


def run_theirs(given, link, words, may_fail=False):
    master = "%s:%d" % (ADDRESSES[0] if link.names else "127.0.0.1", 29000 + os.getpid() % 999)
    environment = measure.peer_environment(1)
    processes = []
    for rank in (1, 0):
        line = link.inside(rank) + [measure.PEER_PYTHON, os.path.abspath(given.peer)] + words + [
            "--rank", str(rank), "--ranks", "2", "--master", master]
        own = dict(environment)
        if link.names:
            own["GLOO_SOCKET_IFNAME"] = "v%s%d" % ("ab"[rank], os.getpid())
        processes.append((start(given, line, own), line))
    rows = {}
    for process, line in reversed(processes):
        if may_fail and process is processes[0][0]:
            process.kill()  # it may be stopped
        code, out, err = finish(process, line)
        rows.update(read_rows(out))
        if code != 0 and not may_fail and "step_ns" not in rows:  # only its end is missing
            sys.exit("%s\nended with %d: %s" % (" ".join(line), code, err))
    return rows


# ---- Tables ----

def print_table(head, lines):
    print("\n| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print(flush=True)


def ms(rows):
    return float(rows["step_ns"]) / 1e6


def forecast_ms(rows):
    return float(rows["forecast_ns"]) / 1e6


def of_rounds(rounds, figure):
    return measure.median([figure(one) for one in rounds])


# ---- Links ----

def steps_of(model, rate, rows_ms):
    """So many that a run of them lasts some seconds."""
    crossing = PARAMETER_BYTES[model] * 8e-3 / rate if rate else 0
    return max(5, min(200, int(RUN_SECONDS * 1e3 / max(1.0, crossing + rows_ms))))


def balanced_rows(given, rate):
    """As many rows of both ranks as one computes in the time that the gradients take to cross."""
    with link_of(None) as here:
        alone = run_alone(given, here, ["balanced", "--rows", "1024", "--steps", "10"])
    crossing_ms = PARAMETER_BYTES["balanced"] * 8e-3 / rate
    return 2 * max(64, int(1024 * crossing_ms / ms(alone) / 64) * 64)


def measure_link(given, rate, model, rows):
    """Measures one turn of both programs, and of Tandem with only one rank's rows."""
    sizes = ["--rows", str(rows)] if rows else []
    steps = ["--steps", str(steps_of(model, rate, 1500 if rows > 4096 else 10)),
             "--warm", "2" if rows > 4096 else "5"]
    half = ["--rows", str((rows or {"main": 256, "cnn": 256, "balanced": 1024}[model]) // 2)]
    with link_of(rate, given.burst) as link:
        run_ours(given, link, ["main", "--calibrate", "--steps", "1"])
        ours = run_ours(given, link, [model, "--forecast"] + sizes + steps)
        theirs = run_theirs(given, link, [model] + sizes + steps) if given.compares else None
    with link_of(None) as here:
        alone = run_alone(given, here, [model] + half + steps)
    print("%s, %s: %.2f ms, forecast %.2f, gloo %s, alone %.2f"
          % (model, rate, ms(ours), forecast_ms(ours), "%.2f" % ms(theirs) if theirs else "-",
             ms(alone)), flush=True)
    return {"ours": ours, "theirs": theirs, "alone": alone}


def line_of(name, rate, model, rounds):
    crossing = PARAMETER_BYTES[model] * 8e-3 / rate if rate else 0
    compares = rounds[0]["theirs"] is not None
    line = [name, model, "%.2f" % of_rounds(rounds, lambda r: ms(r["ours"])),
            "%.2f" % of_rounds(rounds, lambda r: forecast_ms(r["ours"])),
            "%.2f" % of_rounds(rounds, lambda r: forecast_ms(r["ours"]) / ms(r["ours"])),
            "%.2f" % of_rounds(rounds, lambda r: ms(r["theirs"])) if compares else "",
            "%.2f" % of_rounds(rounds, lambda r: ms(r["ours"]) / ms(r["theirs"]))
            if compares else ""]
    for who in ("ours", "theirs"):
        line.append("%.0f" % of_rounds(rounds, lambda r, who=who: float(r[who]["sent"]))
                    if rate and (compares or who == "ours") else "")
    line += ["%.2f" % of_rounds(rounds, lambda r: ms(r["alone"])),
             "%.2f" % crossing if rate else "",
             "%.2f" % of_rounds(rounds, lambda r: ms(r["ours"]) / max(ms(r["alone"]), crossing))]
    return line


def part_links(given):
    places = {"loopback": None}
    if can_make_links():
        places.update(RATES)
    else:
        print("no links: they take root, ip and tc")
    cases = [(name, rate, model, 0) for name, rate in places.items() for model in given.models
             if model != "balanced"]
    if "balanced" in given.models:
        cases += [(name, rate, "balanced", balanced_rows(given, rate))
                  for name, rate in places.items() if rate]
    rounds = {case: [] for case in cases}
    for _ in range(given.rounds):
        for case in cases:
            rounds[case].append(measure_link(given, *case[1:]))
    print_table(["link", "model", "Tandem, ms", "forecast, ms", "forecast / step",
                 "DDP on gloo, ms", "ratio", "Tandem sends, bytes",
                 "gloo sends", "one rank's rows alone, ms", "parameters cross in, ms",
                 "step / longer"],
                [line_of(*case[:3], rounds[case]) for case in cases])


# ---- Homes of parameters ----

HOMES = {"by a ring": ["--collective", "ring"],
         "sharded optimizer states": ["--sharding", "states"],
         "sharded parameters": ["--sharding", "parameters"]}
HOMES_RATE = 200  # Mbit/s


def balanced_bytes(layers):
    """Parameters of `balanced`: layers of 512 by 512, then 10 scores."""
    return 4 * (layers * (512 * 512 + 512) + 512 * 10 + 10)


def part_homes(given):
    """Measures equal computation and communication, by the number of layers."""
    if not can_make_links():
        print("no links: they take root, ip and tc")
        return
    lines = []
    for layers in given.layers:
        sizes = ["balanced", "--layers", str(layers), "--steps", "8", "--warm", "2"]
        crossing_ms = balanced_bytes(layers) * 8e-3 / HOMES_RATE
        with link_of(None) as here:
            alone = ms(run_alone(given, here, sizes + ["--rows", "1024"]))
            rows = max(64, int(1024 * crossing_ms / alone / 64) * 64)
            alone = ms(run_alone(given, here, sizes + ["--rows", str(rows)]))
        sizes += ["--rows", str(2 * rows), "--forecast"]
        steps = {name: [] for name in HOMES}
        with link_of(HOMES_RATE, given.burst) as link:
            run_ours(given, link, ["main", "--calibrate", "--steps", "1"])
            for _ in range(given.rounds):
                for name, words in HOMES.items():
                    steps[name].append(run_ours(given, link, sizes + words))
                    print("%d layers, %s: %.1f ms, forecast %.1f" %
                          (layers, name, ms(steps[name][-1]), forecast_ms(steps[name][-1])),
                          flush=True)
        longer = max(alone, crossing_ms)
        for name, rounds in steps.items():
            step = of_rounds(rounds, ms)
            lines.append(["%d" % layers, name, "%.0f" % step,
                          "%.2f" % of_rounds(rounds, lambda r: forecast_ms(r) / ms(r)),
                          "%.0f" % alone, "%.0f" % crossing_ms, "%.2f" % (step / longer)])
    print_table(["layers", "gradients and parameters", "step, ms", "forecast / step",
                 "one rank's rows alone, ms", "parameters cross in, ms", "step / longer"], lines)


# ---- Processes ----

def part_processes(given):
    figures = {}
    models = ("main", "cnn", "balanced")
    with link_of(None) as here:
        for _ in range(given.rounds):
            for model in models:
                steps = [model, "--steps", "60" if model == "balanced" else "300"]
                devices = ["--devices", "2", "--replicas", "cpu:0,cpu:1"]
                turn = {
                    "ranks": run_ours(given, here, steps),
                    "devices": run_ours(given, here, steps + devices, launched=False),
                    "launched": run_ours(given, here, steps + ["--alone"], ranks=1),
                    "plain": run_ours(given, here, steps + ["--alone"], launched=False),
                }
                figures.setdefault(model, []).append(turn)
        resting = [float(run_ours(given, here, ["main", "--idle", "5"])["idle_share"])
                   for _ in range(given.rounds)]
    lines = []
    for model, turns in figures.items():
        line = [model]
        for name in ("ranks", "devices", "launched", "plain"):
            line.append("%.3f" % of_rounds(turns, lambda t, name=name: ms(t[name])))
        line.insert(3, "%.3f" % of_rounds(turns, lambda t: ms(t["ranks"]) / ms(t["devices"])))
        line.append("%.3f" % of_rounds(turns, lambda t: ms(t["launched"]) / ms(t["plain"])))
        lines.append(line)
    print_table(["ms a step", "two ranks", "two devices", "ratio", "one rank under mpiexec",
                 "without", "ratio"], lines)
    print("A rank that waits for its program uses %.3f %% of a core." %
          (100 * measure.median(resting)))


# ---- Lost ranks ----

def part_lost(given):
    os.environ["TANDEM_NET_SILENCE_SECONDS"] = "1"  # a stopped rank is reported after this time
    lines = []
    for how in ("killed", "stopped"):
        ours, theirs, why = [], [], ""
        for _ in range(given.rounds):
            with link_of(0 if can_make_links() else None) as link:
                word = os.path.join(link.folder, "lost")
                rows = run_ours(given, link, ["main", "--steps", "20", "--lose", how, word],
                                may_fail=True)
                ours.append(float(rows["told_ms"]))
                why = rows["why"]
                theirs.append(float(run_theirs(
                    given, link, ["main", "--steps", "20", "--lose", how, word],
                    may_fail=True)["told_ms"]))
        lines.append([how, "%.0f" % measure.median(ours), "%.0f" % max(ours),
                      "%.0f" % measure.median(theirs)])
        print("%s: %s" % (how, why), flush=True)
    print_table(["rank 1 is", "rank 0 is told after, ms", "at most",
                 "gloo (its time-out: 20 s), ms"], lines)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # links are removed
    given = read_arguments()
    given.compares = measure.peer_is_there()
    if not given.compares and "lost" in given.parts:
        sys.exit("no PyTorch: tools/install_dependencies.sh --peers installs it")
    parts = {"links": part_links, "homes": part_homes, "processes": part_processes,
             "lost": part_lost}
    for part in given.parts:
        parts[part](given)


if __name__ == "__main__":
    main()
