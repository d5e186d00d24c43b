# Evaluation on a CPU. Scores, compares and reports what is mounted at /srv, as the user who runs it:
#
#   docker build -f docker/evaluate.Dockerfile -t pluralrm .
#   docker run --rm --network none --user "$(id -u):$(id -g)" -v "$PWD:/srv" pluralrm demo
#
# Without a network nothing can be sent. For a judge on this machine use --network host and http://127.0.0.1:PORT/v1,
# and pass its key by the name of its variable, -e NAME, never by value.
FROM python:3.13.5-slim-bookworm AS built
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
ARG EXTRAS=chat,hub
RUN python -m venv /opt/pluralrm \
    && /opt/pluralrm/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:3.13.5-slim-bookworm
COPY --from=built /opt/pluralrm /opt/pluralrm
ENV PATH=/opt/pluralrm/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --no-create-home pluralrm \
    && install --directory --owner pluralrm /srv
USER 10001
WORKDIR /srv
ENTRYPOINT ["pluralrm"]
CMD ["--help"]
