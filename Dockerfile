# A service for one bundle, on a CPU:
#
#   docker build -t quatgraph .
#   docker run -p 8000:8000 -e QUATGRAPH_TOKEN=SECRET -v "$PWD/my-model:/model:ro" quatgraph
#
# pip's default index has torch with CUDA for Linux, which works but is large. The CPU build of the same
# version is taken from the index of --build-arg EXTRA_INDEX_URL=..., if one is given.
FROM python:3.12-slim

ARG EXTRA_INDEX_URL=""
WORKDIR /quatgraph
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --disable-pip-version-check ${EXTRA_INDEX_URL:+--extra-index-url "$EXTRA_INDEX_URL"} --constraint constraints.txt ".[serve]"

RUN useradd --uid 10001 --create-home quatgraph
USER quatgraph
WORKDIR /home/quatgraph
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["quatgraph", "serve"]
CMD ["/model", "--host", "0.0.0.0", "--port", "8000"]
