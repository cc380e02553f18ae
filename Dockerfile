# SPDX-License-Identifier: Apache-2.0
# Temper in a small image. Not built by the project's tests, which have no container engine; ./dev deb, which it uses, is.
#   docker build -t temper .
#   docker run --rm -v "$PWD:/work" temper build model.onnx -o model.plan
# With --gpus all and NVIDIA's container toolkit the GPU is there; its libraries come from the host or from a layer of yours.
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN ./dev deb /deb

FROM debian:12-slim
COPY --from=build /deb/temper_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/*.deb libtiff6 && rm -rf /tmp/*.deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["temper"]
