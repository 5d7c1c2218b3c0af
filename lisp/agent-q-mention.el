;;; agent-q-mention.el --- What a message mentions by an @  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; A message may mention what the model should know: "@error", "@file:src/bank.lisp",
;; "@buffer:\"my notes\"".  Here mentions are found in a text and fetched when it is sent;
;; what each kind means is in agent-q-mention-kinds.el.  An @ within a word, as in
;; addresses, or behind a comma, as in Lisp, mentions nothing, nor does code in backquotes.

;;; Code:

(require 'agent-q-excerpt)
(require 'agent-q-mention-kinds)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

(cl-defstruct (agent-q-mention (:constructor agent-q-mention--make) (:copier nil))
  "A mention in a text.  It has a TYPE, an
`agent-q-mention-kind', ARGUMENT or nil, and where it stands there."
  type argument start end)

;;;; Finding them

(defconst agent-q-mention--regexp
  (concat "\\(?:\\`\\|[ \t\n([{\"']\\)\\(@"
          "\\([a-z]+\\)\\(?::\\(\"[^\"\n]*\"\\|[^] \t\n\"`,;})][^] \t\n\"`,;}]*\\)\\)?\\)")
  "Matches what may be a mention, its kind and its argument, three groups.")

(defun agent-q-mention--code (text)
  "Return where code is in TEXT, Markdown, as pairs of start and end."
  (let ((from 0) (found nil))
    (while (string-match "\\(```+\\|~~~+\\|`\\)\\(?:.\\|\n\\)*?\\(\\1\\|\\'\\)" text from)
      (push (cons (match-beginning 0) (match-end 0)) found)
      (setq from (max (1+ from) (match-end 0))))
    found))

(defun agent-q-mention--trimmed (kind argument)
  "Return ARGUMENT of a mention of KIND without what ends a sentence behind it."
  (let ((argument (string-trim-right argument
                                     (if (memq (agent-q-mention-kind-names kind) '(symbol))
                                         "[.,;:]+" "[.,;:!?]+"))))
    ;; A parenthesis that was not opened in it closes something else.
    (while (and (string-suffix-p ")" argument)
                (< (seq-count (lambda (it) (eq it ?\()) argument)
                   (seq-count (lambda (it) (eq it ?\))) argument)))
      (setq argument (string-trim-right (substring argument 0 -1) "[.,;:]+")))
    argument))

(defun agent-q-mention-find (text)
  "Return the mentions in TEXT, first one first."
  (let ((case-fold-search nil) (from 0) (found nil)
        (code (and (string-search "@" text) (string-search "`" text)
                   (agent-q-mention--code text))))
    (while (string-match agent-q-mention--regexp text from)
      (let* ((start (match-beginning 1)) (end (match-end 1))
             (kind (agent-q-mention-kind-called (match-string 2 text)))
             (argument (match-string 3 text)))
        (setq from end)
        (when (and kind argument (not (string-prefix-p "\"" argument)))
          (let ((trimmed (agent-q-mention--trimmed kind argument)))
            (setq end (- end (- (length argument) (length trimmed)))
                  argument trimmed)))
        (when (and kind
                   (not (equal argument ""))
                   ;; "@package.json" and "@error-handling" are other words.
                   (or argument
                       (not (string-match-p "\\`\\(?:[[:alnum:]_:/@-]\\|\\.[[:alnum:]]\\)"
                                            (substring text end))))
                   (not (seq-some (lambda (part) (and (< (car part) start) (< start (cdr part))))
                                  code)))
          (push (agent-q-mention--make
                 :type kind :start start :end end
                 :argument (and argument (string-trim argument "\"" "\"")))
                found))))
    (nreverse found)))

(defun agent-q-mention-name (mention)
  "Return MENTION as it is written."
  (agent-q-mention-written (agent-q-mention-kind-name (agent-q-mention-type mention))
                           (agent-q-mention-argument mention)))

;;;; Fetching them

(cl-defstruct (agent-q-mention-fetch (:constructor agent-q-mention--make-fetch) (:copier nil))
  "What is being fetched for a message.
RESULTS has an excerpt or a problem, a string, for each mention, and nil for
those that are on their way.  ASKED is non-nil when all were asked for, OVER when
FUNCTION was called."
  results function asked over)

(defun agent-q-mention-fetch-all (mentions function)
  "Fetch MENTIONS for the current chat, the same one once.
FUNCTION gets the excerpts, and nil or a sentence on what can't be fetched: all
that is known at once, or else what comes first.  It may be called before this
returns."
  (let* ((mentions (seq-uniq mentions (lambda (one other)
                                        (equal (agent-q-mention-name one)
                                               (agent-q-mention-name other)))))
         (chat (current-buffer))
         (fetch (agent-q-mention--make-fetch :results (make-vector (length mentions) nil)
                                             :function function)))
    (seq-do-indexed
     (lambda (mention index)
       (let ((done (lambda (result)
                     (when (and (buffer-live-p chat) (not (agent-q-mention-fetch-over fetch)))
                       (aset (agent-q-mention-fetch-results fetch) index
                             (if (stringp result)
                                 (format "%s: %s" (agent-q-mention-name mention) result)
                               result))
                       (with-current-buffer chat
                         (agent-q-mention--look fetch))))))
         (condition-case failure
             (funcall (agent-q-mention-kind-fetch (agent-q-mention-type mention))
                      (agent-q-mention-argument mention)
                      (agent-q-mention-name mention)
                      done)
           (error (funcall done (error-message-string failure))))))
     mentions)
    (setf (agent-q-mention-fetch-asked fetch) t)
    (agent-q-mention--look fetch)))

(defun agent-q-mention--look (fetch)
  "Call the function of FETCH if all is there, or something is missing."
  (let* ((results (agent-q-mention-fetch-results fetch))
         (problems (seq-filter #'stringp results)))
    (when (and (agent-q-mention-fetch-asked fetch)
               (not (agent-q-mention-fetch-over fetch))
               (or problems (seq-every-p #'identity results)))
      (setf (agent-q-mention-fetch-over fetch) t)
      (funcall (agent-q-mention-fetch-function fetch)
               (seq-filter #'agent-q-excerpt-p results)
               (and problems (string-join problems "; "))))))

(provide 'agent-q-mention)
;;; agent-q-mention.el ends here
