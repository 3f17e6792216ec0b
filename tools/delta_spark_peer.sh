#!/bin/sh
# Sets up delta-spark, which the tests of interoperation compare with: PySpark in .venv-spark-peer and the
# jars of Delta (what they need beside comes with Spark) in .tools/delta-spark/jars, the latter with Maven.
# Safe to run again: a stamp says that it is done. Where Java, Maven or a registry is missing it says so and
# ends well; the tests that need delta-spark are then skipped with a reason. The environment also has what our
# own package needs, so that its smoke part runs on that PySpark too.
#
# usage: tools/delta_spark_peer.sh        (all together get DELTA_SPARK_SECONDS, 900)

set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
pyspark=4.2.0
delta=4.4.0
artifact=delta-spark_4.2_2.13
folder="$root/.tools/delta-spark"
venv="$root/.venv-spark-peer"
stamp="$folder/.ready-$pyspark-$delta-2"
log="$folder/setup.log"
deadline=$(($(date +%s) + ${DELTA_SPARK_SECONDS:-900}))

leave_out() {
    echo "delta-spark: left out, $1"
    exit 0
}

bounded() {
    left=$((deadline - $(date +%s)))
    [ "$left" -gt 0 ] || return 1
    if command -v timeout >/dev/null 2>&1; then timeout "$left" "$@"; else "$@"; fi
}

write_pom() {
    cat >"$folder/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>peers</groupId>
  <artifactId>delta-spark-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>io.delta</groupId>
      <artifactId>$artifact</artifactId>
      <version>$delta</version>
    </dependency>
  </dependencies>
</project>
POM
}

copy_jars() { # into a folder of its own first, so that a cut download is never taken for the whole
    rm -rf "$folder/jars.part"
    (cd "$folder" && bounded mvn -B -q dependency:copy-dependencies -DincludeScope=runtime \
        -DincludeGroupIds=io.delta,io.unitycatalog -DoutputDirectory="$folder/jars.part") || return 1
    rm -rf "$folder/jars" && mv "$folder/jars.part" "$folder/jars"
}

if [ -f "$stamp" ] && [ -x "$venv/bin/python" ]; then
    echo "delta-spark: present"
    exit 0
fi
command -v java >/dev/null 2>&1 || leave_out "there is no java"
command -v mvn >/dev/null 2>&1 || leave_out "there is no mvn"
mkdir -p "$folder"
: >"$log"
write_pom
copy_jars >>"$log" 2>&1 || leave_out "its jars could not be had, see .tools/delta-spark/setup.log"
bounded "$root/tools/make_environment" "$venv" "pyspark==$pyspark" 'pyarrow>=20' 'pandas>=2.2,<3' \
    'obstore>=0.8' 'msgspec>=0.19' 'pyroaring>=1.0' 'stamina>=24.3' 'click>=8.1.8' 'rich>=13.9' 'httpx2>=2.0' >>"$log" 2>&1 ||
    leave_out "PySpark could not be installed, see .tools/delta-spark/setup.log"
touch "$stamp"
echo "delta-spark: installed"
