#!/bin/bash
# Two hosts on one machine: network namespaces joined by a pair of virtual interfaces, with a rank
# in each. The bytes that cross are those that the plan explains. The measured rate is that of the
# link. If the link goes down in the middle of a step, both ranks report it. So they do if the
# control channel has a link of its own, which stays up. Times are printed and have wide limits,
# since machines are busy.
#     two_hosts_test.sh mpich|openmpi LINK_PROGRAM PLUGIN...
set -u
PATH=$PATH:/usr/sbin:/sbin # where tc is
mpi=$1
shift
program=$(realpath "$1")
[ $# -gt 1 ] || { echo "skipped: no MPI's headers are installed"; exit 0; }
TANDEM_NET_PATH=$(dirname "$(realpath "$2")")
export TANDEM_NET_PATH TANDEM_NET_INTERFACE=wire
work=${TEST_TMPDIR:-$(mktemp -d)}
a=tdmA$$ b=tdmB$$

skip() { echo "skipped: $1"; exit 0; }
fail() { echo "FAILED: $1"; exit 1; }
command -v ip > /dev/null || skip "iproute2 is not installed"
ip netns add "$a" 2> "$work/netns" ||
  skip "no network namespaces can be made here: $(cat "$work/netns")"
files=$(mktemp -d /tmp/tdm.XXXXXX) # the paths of sockets are short
remove() {
  ip netns del "$a"
  ip netns del "$b" 2> /dev/null
  rm -rf "$files"
}
trap remove EXIT
ip netns add "$b" || fail "a second namespace"
ip link add wire netns "$a" type veth peer name wire netns "$b" ||
  skip "no virtual interfaces can be made here"
ip link add beats netns "$a" type veth peer name beats netns "$b" || fail "a second link"
ip -n "$a" addr add 10.77.0.1/24 dev wire
ip -n "$b" addr add 10.77.0.2/24 dev wire
ip -n "$a" addr add 10.78.0.1/24 dev beats
ip -n "$b" addr add 10.78.0.2/24 dev beats
up() {
  for n in "$a lo" "$b lo" "$a wire" "$b wire" "$a beats" "$b beats"; do
    ip -n "${n% *}" link set "${n#* }" up
  done
  for n in "$a wire" "$b wire"; do # the kernel tells later
    until ip -n "${n% *}" -br link show "${n#* }" | grep -q LOWER_UP; do sleep 0.02; done
    until [ "$(ip netns exec "${n% *}" cat "/sys/class/net/${n#* }/operstate")" = up ]; do
      sleep 0.02
    done
  done
}

# Replaces ssh: launchers call it with options, a host and a command.
cat > "$work/agent" << AGENT
#!/bin/bash
while [[ "\$1" == -* ]]; do shift; done
case \$1 in 10.77.0.1) n=$a ;; *) n=$b ;; esac
shift
[ \$# -eq 0 ] || exec ip netns exec \$n /bin/bash -c "\$*"
AGENT
chmod +x "$work/agent"

# launch MPI ARGUMENT...: the program, a rank in each namespace. Both MPIs find the memory that the
# two share otherwise, and nothing crosses the link. Each has temporary files of its own: what ends
# of one Open MPI job takes those of the next with it.
limit=60
launch() {
  local mpi=$1
  shift
  TMPDIR=$(mktemp -d "$files/XXXX")
  export TMPDIR
  if [ "$mpi" = mpich ]; then
    export UCX_TLS=tcp,self UCX_NET_DEVICES=wire
    exec timeout -k 5 $limit ip netns exec "$a" mpiexec.mpich -launcher ssh \
      -launcher-exec "$work/agent" -disable-auto-cleanup -hosts 10.77.0.1,10.77.0.2 -n 2 -ppn 1 \
      "$program" "$@"
  fi
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  exec timeout -k 5 $limit ip netns exec "$a" mpirun.openmpi --enable-recovery \
    --mca plm_rsh_agent "$work/agent" --mca pml ob1 --mca btl tcp,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
    -x TANDEM_NET_PATH -x TANDEM_NET_INTERFACE \
    ${TANDEM_NET_STALL_SECONDS:+-x TANDEM_NET_STALL_SECONDS} \
    ${TANDEM_NET_SILENCE_SECONDS:+-x TANDEM_NET_SILENCE_SECONDS} \
    -H 10.77.0.1,10.77.0.2 -n 2 "$program" "$@"
}

# launch_until WORDS FILE MPI ARGUMENT...: runs launch, with output to FILE, until both ranks have
# written WORDS there. Then it ends the remaining processes: MPICH's MPI_Finalize may hang over TCP.
launch_until() {
  local words=$1 file=$2
  shift 2
  : > "$file" # by the time that it is looked into, no word of the job before stands there
  (launch "$@") > "$file" 2>&1 < /dev/null &
  local launcher=$!
  while kill -0 "$launcher" 2> /dev/null; do
    [ "$(grep -c "$words" "$file")" -ge 2 ] && break
    sleep 0.05
  done
  for _ in $(seq 60); do kill -0 "$launcher" 2> /dev/null && sleep 0.05; done
  if kill "$launcher" 2> /dev/null; then
    echo "$1: the launcher had not ended"
    wait "$launcher" 2> /dev/null
  else
    wait "$launcher" || echo "$1: the launcher ended with $?" # above 128: a rank, by a signal
  fi
}

# Prints the milliseconds that a rank predicts for a message of 1 MB.
costs() {
  sed -n "s/^rank $1: 1 MB takes \([0-9.e+-]*\) ms, calibrated$/\1/p" "$work/links"
}

# The measured rate of a 200 Mbit/s link is right: 1 MB takes 40 ms, or 37 with a full bucket.
measure() {
  up
  for n in "$a wire" "$b wire"; do
    tc -n "${n% *}" qdisc add dev "${n#* }" root tbf rate 200mbit burst 64kb latency 50ms \
      2> "$work/tc" || { echo "no rates here: $(cat "$work/tc")"; return; }
  done
  launch_until ": explained " "$work/links" "$1" measure "$work/links.json"
  cat "$work/links"
  [ -n "$(costs 0)" ] && [ "$(costs 0)" = "$(costs 1)" ] ||
    fail "$1: ranks do not know the same of their link"
  awk -v ms="$(costs 0)" 'BEGIN { exit !(ms >= 36 && ms <= 400) }' ||
    fail "$1: the link is not what was measured"
  for n in "$a wire" "$b wire"; do
    tc -n "${n% *}" qdisc del dev "${n#* }" root
  done
}

count() {
  up
  launch_until ": explained " "$work/count" "$1" count
  cat "$work/count"
  awk '/the interface counted/ { n++; if ($NF < 0.96 || $NF > 1.04) bad = 1 }
       END { exit n != 2 || bad }' "$work/count" ||
    fail "$1: what crossed is not what is explained"
}

# cut_link MPI WORDS: each rank must report WORDS about the other one, or about a collective.
cut_link() {
  up
  rm -f "$work/started"
  : > "$work/told"
  (limit=120 && launch "$1" cut "$work/started" "$work/told") > "$work/out" 2>&1 < /dev/null &
  local launcher=$!
  for _ in $(seq 1200); do [ -s "$work/started" ] && break; sleep 0.05; done
  [ -s "$work/started" ] || { kill "$launcher"; fail "$1: not training: $(cat "$work/out")"; }
  local down
  down=$(date +%s%N)
  ip -n "$b" link set wire down
  for _ in $(seq 1800); do
    [ "$(wc -l < "$work/told")" -ge 2 ] && break
    sleep 0.05
  done
  kill "$launcher" 2> /dev/null
  wait "$launcher" 2> /dev/null
  [ -s "$work/told" ] || fail "$1: nobody was told in 90 s: $(cat "$work/out")"
  while read -r _ rank when message; do
    echo "$1: rank $rank told after $(((when - down) / 1000000)) ms: $message"
    [[ $message == *"rank $((1 - rank))"*"$2"* || $message == *"of all ranks"*"$2"* ]] ||
      fail "$1: rank $rank does not name the other one"
  done < "$work/told"
  [ "$(wc -l < "$work/told")" -eq 2 ] || fail "$1: only one rank was told in 90 s"
}

[[ " $* " == *"libtandem_$mpi.so "* ]] || skip "$mpi was not built"
command -v "$([ "$mpi" = mpich ] && echo mpiexec.mpich || echo mpirun.openmpi)" > /dev/null ||
  skip "$mpi has no launcher here"
count "$mpi"
measure "$mpi"
TANDEM_NET_SILENCE_SECONDS=2 cut_link "$mpi" "has not been heard of"
TANDEM_NET_INTERFACE=beats TANDEM_NET_STALL_SECONDS=2 cut_link "$mpi" "is stalled"
