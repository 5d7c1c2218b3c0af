;;; agent-q-attach.el --- What is attached to messages, and kept for later ones  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is attached to messages: where the user is, mentions such as @file:src/bank.lisp, and
;; what a chat keeps in its context.  agent-q-context.el shows all.

;;; Code:

(require 'agent-q-attach-kinds)
(require 'agent-q-connection)
(require 'agent-q-json)
(require 'agent-q-project)
(require 'agent-q-prompt)
(require 'agent-q-server-texts)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'cl-lib)
(require 'seq)
(require 'subr-x)

;;;; Where the user is when they send a message

;; The project, the image, the package of the user's REPL and their source
;; buffer, as the core is given it with each message.  The system prompt stays the
;; same within a chat, so what changes is not in it.

(defun agent-q-attach-context-json (connection &optional excerpts how)
  "Return as JSON where the user is now.
CONNECTION is the one of the current buffer, a chat, or nil.  EXCERPTS are
texts that are sent along, each as (WHERE . TEXT), or (WHERE TEXT PICTURE
FOREIGN) with the bytes of a picture in base64, or nil, and whether a stranger
wrote it.  HOW is what only the model is told of how to do what the message
says, or nil."
  (let ((root (agent-q-project-directory)))
    (agent-q-json-serialize
     `((date . ,(format-time-string "%Y-%m-%d"))
       (project . ,(agent-q-attach--context-text root))
       (image . ,(agent-q-attach--context-text
                  (and connection (agent-q-connection-facts connection))))
       (repl_package . ,(agent-q-attach--context-text
                         (and connection (agent-q-connection-repl-package connection))))
       (source . ,(let ((buffer (agent-q-attach--context-source-buffer root)))
                    (if buffer (agent-q-attach--context-source buffer) :null)))
       (along . ,(vconcat
                  (mapcar (pcase-lambda (`(,where . ,what))
                            (pcase-let ((`(,text ,picture ,foreign) (ensure-list what)))
                              `((what . ,(agent-q-text-clean where))
                                (text . ,(agent-q-text-clean text))
                                ,@(and picture `((picture . ,picture)))
                                ,@(and foreign '((foreign . t))))))
                          excerpts)))
       (how . ,(or how :null))))))

(defun agent-q-attach--context-text (text)
  "Return TEXT as JSON takes it; it may be nil."
  (if text (agent-q-text-clean text) :null))

(defun agent-q-attach--context-source-buffer (root)
  "Return the buffer of source code that the user last worked in, or nil.
It is one of Lisp, or visits a file of the project at ROOT: what else the
user has open is not sent unasked."
  (agent-q-session-user-last-buffer
   (lambda (buffer)
     (with-current-buffer buffer
       (or (derived-mode-p 'lisp-mode)
           ;; By their names alone: to look at all files of all buffers takes time.
           (and root buffer-file-name
                (string-prefix-p (file-name-as-directory root)
                                 (expand-file-name buffer-file-name))))))))

(defun agent-q-attach--context-source (buffer)
  "Return what is sent about BUFFER, as an alist."
  (with-current-buffer buffer
    (save-excursion
      (let ((window (get-buffer-window buffer t)))
        (when window (goto-char (window-point window)))
        `((name . ,(agent-q-text-clean (or buffer-file-name (buffer-name))))
          (line . ,(line-number-at-pos nil t))
          (package . ,(agent-q-attach--context-text
                       (and (derived-mode-p 'lisp-mode) (agent-q-session-user-package))))
          (unsaved . ,(if (and buffer-file-name (buffer-modified-p)) t :false)))))))

;;;; What a message mentions by an @

;; A message may mention what the model should know: "@error", "@file:src/bank.lisp",
;; "@buffer:\"my notes\"".  Here mentions are found in a text and fetched when it is sent;
;; what each kind means is in agent-q-attach-kinds.el.  An @ within a word, as in
;; addresses, or behind a comma, as in Lisp, mentions nothing, nor does code in backquotes.

(cl-defstruct (agent-q-attach-mention (:constructor agent-q-attach--mention-make) (:copier nil))
  "A mention in a text.  It has a TYPE, an
`agent-q-attach-kinds-kind', ARGUMENT or nil, and where it stands there."
  type argument start end)

;;;;; Finding them

(defconst agent-q-attach--mention-regexp
  (concat "\\(?:\\`\\|[ \t\n([{\"']\\)\\(@"
          "\\([a-z][a-z0-9_-]*\\)\\(?::\\(\"[^\"\n]*\"\\|[^] \t\n\"`,;})][^] \t\n\"`,;}]*\\)\\)?\\)")
  "Matches what may be a mention, its kind and its argument, three groups.")

(defun agent-q-attach--mention-code (text)
  "Return where code is in TEXT, Markdown, as pairs of start and end."
  (let ((from 0) (found nil))
    (while (string-match "\\(```+\\|~~~+\\|`\\)\\(?:.\\|\n\\)*?\\(\\1\\|\\'\\)" text from)
      (push (cons (match-beginning 0) (match-end 0)) found)
      (setq from (max (1+ from) (match-end 0))))
    found))

(defun agent-q-attach--mention-trimmed (kind argument)
  "Return ARGUMENT of a mention of KIND without what ends a sentence behind it."
  (let ((argument (string-trim-right argument
                                     (if (memq (agent-q-attach-kinds-kind-names kind) '(symbol))
                                         "[.,;:]+" "[.,;:!?]+"))))
    ;; A parenthesis that was not opened in it closes something else.
    (while (and (string-suffix-p ")" argument)
                (< (seq-count (lambda (it) (eq it ?\()) argument)
                   (seq-count (lambda (it) (eq it ?\))) argument)))
      (setq argument (string-trim-right (substring argument 0 -1) "[.,;:]+")))
    argument))

(defun agent-q-attach-mention-kind (name)
  "Return the kind of mentions called NAME in this chat, or nil."
  (or (agent-q-attach-kinds-kind-called name) (agent-q-server-texts-kind name)))

(defun agent-q-attach-mention-find (text)
  "Return the mentions in TEXT, first one first."
  (let ((case-fold-search nil) (from 0) (found nil)
        (code (and (string-search "@" text) (string-search "`" text)
                   (agent-q-attach--mention-code text))))
    (while (string-match agent-q-attach--mention-regexp text from)
      (let* ((start (match-beginning 1)) (end (match-end 1))
             (argument (match-string 3 text))
             ;; Asking for the servers must not lose what was matched.
             (kind (save-match-data (agent-q-attach-mention-kind (match-string 2 text)))))
        (setq from end)
        (when (and kind argument (not (string-prefix-p "\"" argument)))
          (let ((trimmed (agent-q-attach--mention-trimmed kind argument)))
            (setq end (- end (- (length argument) (length trimmed)))
                  argument trimmed)))
        (when (and kind
                   (not (equal argument ""))
                   (or argument (not (eq 'always (agent-q-attach-kinds-kind-argument kind))))
                   ;; "@package.json" and "@error-handling" are other words.
                   (or argument
                       (not (string-match-p "\\`\\(?:[[:alnum:]_:/@-]\\|\\.[[:alnum:]]\\)"
                                            (substring text end))))
                   (not (seq-some (lambda (part) (and (< (car part) start) (< start (cdr part))))
                                  code)))
          (push (agent-q-attach--mention-make
                 :type kind :start start :end end
                 :argument (and argument (string-trim argument "\"" "\"")))
                found))))
    (nreverse found)))

(defun agent-q-attach-mention-name (mention)
  "Return MENTION as it is written."
  (agent-q-attach-kinds-written (agent-q-attach-kinds-kind-name (agent-q-attach-mention-type mention))
                                (agent-q-attach-mention-argument mention)))

;;;;; Fetching them

(cl-defstruct (agent-q-attach-mention-fetch (:constructor agent-q-attach--mention-make-fetch) (:copier nil))
  "What is being fetched for a message.
RESULTS has an excerpt, a list of some, or a problem, a string, for each
mention, and nil for those that are on their way.  ASKED is non-nil when all were asked for, OVER
when FUNCTION was called."
  results function asked over)

(defun agent-q-attach-mention-fetch-all (mentions function)
  "Fetch MENTIONS for the current chat, the same one once.
FUNCTION gets the excerpts, and nil or a sentence on what can't be fetched: all
that is known at once, or else what comes first.  It may be called before this
returns."
  (let* ((mentions (seq-uniq mentions (lambda (one other)
                                        (equal (agent-q-attach-mention-name one)
                                               (agent-q-attach-mention-name other)))))
         (chat (current-buffer))
         (fetch (agent-q-attach--mention-make-fetch :results (make-vector (length mentions) nil)
                                                    :function function)))
    (seq-do-indexed
     (lambda (mention index)
       (let ((done (lambda (result)
                     (when (and (buffer-live-p chat) (not (agent-q-attach-mention-fetch-over fetch)))
                       (aset (agent-q-attach-mention-fetch-results fetch) index
                             (if (stringp result)
                                 (format "%s: %s" (agent-q-attach-mention-name mention) result)
                               result))
                       (with-current-buffer chat
                         (agent-q-attach--mention-look fetch))))))
         (condition-case failure
             (funcall (agent-q-attach-kinds-kind-fetch (agent-q-attach-mention-type mention))
                      (agent-q-attach-mention-argument mention)
                      (agent-q-attach-mention-name mention)
                      done)
           (error (funcall done (error-message-string failure))))))
     mentions)
    (setf (agent-q-attach-mention-fetch-asked fetch) t)
    (agent-q-attach--mention-look fetch)))

(defun agent-q-attach--mention-look (fetch)
  "Call the function of FETCH if all is there, or something is missing."
  (let* ((results (agent-q-attach-mention-fetch-results fetch))
         (excerpts (seq-filter #'agent-q-attach-kinds-excerpt-p (seq-mapcat #'ensure-list results)))
         (problems (or (seq-filter #'stringp results)
                       (agent-q-attach-kinds-pictures-trouble excerpts))))
    (when (and (agent-q-attach-mention-fetch-asked fetch)
               (not (agent-q-attach-mention-fetch-over fetch))
               (or problems (seq-every-p #'identity results)))
      (setf (agent-q-attach-mention-fetch-over fetch) t)
      (funcall (agent-q-attach-mention-fetch-function fetch)
               excerpts
               (and problems (string-join problems "; "))))))

;;;; Pictures that are pasted or dropped

;; They become mentions at the prompt, of files: what is pasted is written to one first.

(declare-function yank-media-handler "yank-media" (types handler))
(declare-function dnd-get-local-file-name "dnd" (uri &optional must-exist))
(declare-function dnd-open-local-file "dnd" (uri action))
(defvar dnd-protocol-alist)

;;;###autoload
(defun agent-q-attach-picture (file)
  "Mention the picture FILE at the prompt of this chat."
  (declare (completion agent-q-session-command-p))
  (interactive "fAttach the picture: ")
  (agent-q-session-check)
  (let ((trouble (agent-q-attach-kinds-picture-trouble (expand-file-name file))))
    (when trouble (user-error "Not attached: %s" trouble)))
  (unless (agent-q-prompt-p) (goto-char (point-max)))
  (unless (memq (char-before) '(?\s ?\n)) (insert " "))
  (insert (agent-q-attach-kinds-written "file" (agent-q-attach-kinds-shown (expand-file-name file)))
          " "))

(defun agent-q-attach--paste (type data)
  "Mention a pasted picture of TYPE, such as `image/png', with the bytes DATA."
  (let ((file (make-temp-file "agent-q-picture-" nil
                              (concat "." (cadr (split-string (symbol-name type) "/")))))
        (coding-system-for-write 'binary))
    (write-region data nil file nil 'silent)
    (agent-q-attach-picture file)))

(defun agent-q-attach--drop (uri action)
  "Mention the picture at URI, which was dropped; open other files, as by ACTION."
  (let ((file (dnd-get-local-file-name uri t)))
    (if (not (and file (null (agent-q-attach-kinds-picture-trouble file))))
        (dnd-open-local-file uri action)
      (agent-q-attach-picture file)
      'private)))

(defun agent-q-attach-setup ()
  "Have pictures that are pasted to this chat or dropped on it mentioned."
  (require 'dnd)
  (setq-local dnd-protocol-alist
              (cons '("\\`file:" . agent-q-attach--drop) dnd-protocol-alist))
  ;; Not in Emacs 28.
  (when (fboundp 'yank-media-handler)
    (yank-media-handler "image/.*" #'agent-q-attach--paste)))

;;;; What a chat keeps in its context

;; Texts that the user or a program adds to the context of a chat.  They go along with the
;; next message, and again only when they have changed.  An item has a text of its own, or
;; is a mention such as "@file:src/bank.lisp", which is fetched with each message.
;; agent-q-attach.el says where the user is; agent-q-context.el shows all.

(defcustom agent-q-context-max 50
  "Maximum number of items in the context of a chat.
Adding one more drops the oldest; with 0, nothing can be added."
  :type 'natnum
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

(defconst agent-q-attach-types '(code text file repl-history error custom)
  "The types of items.")

(cl-defstruct (agent-q-attach-item (:constructor agent-q-attach--make) (:copier nil))
  "Something in the context of a chat.
ID is \"ctx-N\", with another N for each item of this Emacs.  TYPE is one of
`agent-q-attach-types', CONTENT a text, METADATA a property list: :file,
:start-line, :end-line, :name.  TIME is when it was added.  MENTION, or nil, is
a mention; CONTENT is then what it was when it was last sent."
  (id nil :read-only t) (type nil :read-only t) content (metadata nil :read-only t)
  (time nil :read-only t) (mention nil :read-only t)
  ;; The text that the model has.
  sent)

(defvar agent-q-attach--last 0
  "The number of the last item that was made.")

(defvar-local agent-q-attach--all nil
  "The items of this chat, first one first.")

(defvar-local agent-q-attach-sent nil
  "What was attached to messages of this chat, latest first: (TIME . EXCERPT).")

(defvar agent-q-attach-changed-hook nil
  "Functions called in a chat whose context has changed.")

;;;;; Adding and removing

(defun agent-q-context-add-item (type content &optional metadata)
  "Add CONTENT, a text, to the context of this chat, and return its item.
TYPE is one of `agent-q-attach-types', METADATA as in `agent-q-attach-item'.
Signal `wrong-type-argument' for another type or content, and a user error when
`agent-q-context-max' is 0."
  (unless (memq type agent-q-attach-types)
    (signal 'wrong-type-argument (list 'agent-q-attach-types type)))
  (unless (stringp content)
    (signal 'wrong-type-argument (list 'stringp content)))
  (agent-q-attach--add type content metadata nil))

(defun agent-q-attach-add-mention (mention)
  "Add MENTION, such as \"@file:a.lisp\", to the context of this chat.
Return its item.  What it is about is fetched with each message, and sent when
it has changed."
  (let* ((found (agent-q-attach-mention-find mention))
         (name (and found (agent-q-attach-mention-name (car found)))))
    (unless (and found (null (cdr found)) (equal mention name))
      (user-error "%s mentions nothing; try @file:NAME or @error" mention))
    (when (seq-find (lambda (item) (equal name (agent-q-attach-item-mention item)))
                    agent-q-attach--all)
      (user-error "%s is in the context already" name))
    (agent-q-attach--add
     (pcase (agent-q-attach-kinds-kind-name (agent-q-attach-mention-type (car found)))
       ("file" 'file)
       ("error" 'error)
       ("repl" 'repl-history)
       ((or "definition" "diff") 'code)
       (_ 'text))
     "" (list :name name) name)))

(defun agent-q-attach--add (type content metadata mention)
  "Add an item of TYPE with CONTENT, METADATA and MENTION, and return it."
  (agent-q-session-check)
  (unless (< 0 agent-q-context-max)
    (user-error "Nothing added: `agent-q-context-max' is 0"))
  (let ((item (agent-q-attach--make
               :id (format "ctx-%d" (cl-incf agent-q-attach--last))
               :type type :content content :metadata metadata :mention mention
               :time (current-time))))
    (setq agent-q-attach--all
          (last (append agent-q-attach--all (list item)) agent-q-context-max))
    (run-hooks 'agent-q-attach-changed-hook)
    item))

(defun agent-q-context-items (&optional types limit)
  "Return the items in the context of this chat, first one first.
TYPES, a list, and LIMIT, for the last ones, leave out others."
  (let ((items (if types
                   (seq-filter (lambda (item) (memq (agent-q-attach-item-type item) types))
                               agent-q-attach--all)
                 agent-q-attach--all)))
    (if limit (last items limit) (copy-sequence items))))

(defun agent-q-context-remove-item (id)
  "Remove the item ID from the context of this chat.
Return non-nil if it was there.  What was sent of it stays in the
conversation."
  (let ((item (seq-find (lambda (item) (equal id (agent-q-attach-item-id item)))
                        agent-q-attach--all)))
    (when item
      (setq agent-q-attach--all (remq item agent-q-attach--all))
      (run-hooks 'agent-q-attach-changed-hook)
      t)))

(defun agent-q-attach-remove-all ()
  "Remove all items from the context of this chat."
  (setq agent-q-attach--all nil)
  (run-hooks 'agent-q-attach-changed-hook))

;;;;; Saving

(defun agent-q-attach-plain ()
  "Return what is kept in the context of this chat as alists, for JSON."
  (mapcar
   (lambda (item)
     (let ((metadata (agent-q-attach-item-metadata item))
           (mention (agent-q-attach-item-mention item)))
       `((type . ,(symbol-name (agent-q-attach-item-type item)))
         (added . ,(format-time-string "%s" (agent-q-attach-item-time item)))
         ,(if mention `(mention . ,(agent-q-text-clean mention))
            `(content . ,(agent-q-text-clean (agent-q-attach-item-content item))))
         ,@(cl-loop for (key value) on metadata by #'cddr
                    when (and (memq key '(:file :name)) (stringp value))
                    collect (cons (intern (substring (symbol-name key) 1))
                                  (agent-q-text-clean value))
                    when (and (memq key '(:start-line :end-line)) (natnump value))
                    collect (cons (intern (substring (symbol-name key) 1)) value)))))
   agent-q-attach--all))

(defun agent-q-attach-restore (saved)
  "Put SAVED before what is in the context of this chat.
SAVED is what `agent-q-attach-plain' returned.  What can't be understood of it
is left out."
  (setq agent-q-attach--all
        (last (append (delq nil (mapcar #'agent-q-attach--restored saved))
                      agent-q-attach--all)
              agent-q-context-max))
  (run-hooks 'agent-q-attach-changed-hook))

(defun agent-q-attach--restored (saved)
  "Return the item that was saved as SAVED, an alist, or nil."
  (let* ((text (lambda (key) (let ((value (alist-get key saved)))
                               (and (stringp value) value))))
         (number (lambda (key) (let ((value (alist-get key saved)))
                                 (and (natnump value) value))))
         (type (seq-find (lambda (type) (equal (symbol-name type) (alist-get 'type saved)))
                         agent-q-attach-types))
         (mention (funcall text 'mention))
         (content (if mention "" (funcall text 'content))))
    (when (and type content)
      (agent-q-attach--make
       :id (format "ctx-%d" (cl-incf agent-q-attach--last))
       :type type :content content :mention mention
       :time (seconds-to-time (string-to-number (or (funcall text 'added) "0")))
       :metadata (cl-loop for (key . value) in `((:file . ,(funcall text 'file))
                                                 (:start-line . ,(funcall number 'start-line))
                                                 (:end-line . ,(funcall number 'end-line))
                                                 (:name . ,(funcall text 'name)))
                          when value append (list key value))))))

;;;;; In words

(defun agent-q-attach-item-name (item)
  "Return what ITEM is called: its mention, name, file with lines or type."
  (let* ((metadata (agent-q-attach-item-metadata item))
         (file (plist-get metadata :file))
         (start (plist-get metadata :start-line))
         (end (plist-get metadata :end-line)))
    (cond ((agent-q-attach-item-mention item))
          ((plist-get metadata :name))
          (file (concat file (if (and start end) (format ":%s-%s" start end) "")))
          (t (agent-q-attach--type item)))))

(defun agent-q-attach--type (item)
  "Return the type of ITEM as a word of a title, such as \"Repl-History\"."
  (capitalize (symbol-name (agent-q-attach-item-type item))))

(defun agent-q-context-summary ()
  "Return (:count N :types LIST :preview TEXT) on the context of this chat."
  (let ((items agent-q-attach--all))
    (list :count (length items)
          :types (mapcar #'agent-q-attach-item-type items)
          :preview (if (null items) "No context"
                     (format "%d item%s: %s" (length items) (if (cdr items) "s" "")
                             (mapconcat #'agent-q-attach--type items ", "))))))

(defun agent-q-context-to-string ()
  "Return the context of this chat as Markdown."
  (concat "## Context\n\n"
          (mapconcat
           (lambda (item)
             (let* ((content (agent-q-attach-item-content item))
                    (fence (make-string (agent-q-attach--fence content) ?`))
                    (name (agent-q-attach-item-name item))
                    (type (agent-q-attach--type item)))
               (format "### %s%s\n%slisp\n%s\n%s\n\n" type
                       (if (equal name type) "" (format " (from %s)" name))
                       fence content fence)))
           agent-q-attach--all "")))

(defun agent-q-attach--fence (content)
  "Return how many backquotes around CONTENT nothing in it ends."
  (let ((most 2) (from 0))
    (while (string-match "`+" content from)
      (setq most (max most (- (match-end 0) (match-beginning 0)))
            from (match-end 0)))
    (1+ most)))

;;;;; Sending

(defun agent-q-attach--excerpt (item)
  "Return the excerpt of ITEM, which has a text of its own."
  (agent-q-attach-kinds-excerpt-make (agent-q-attach-item-name item)
                                     (format "%s, kept in the context by the user"
                                             (agent-q-attach-item-name item))
                                     (agent-q-attach-item-content item)))

(defun agent-q-attach-fetch (function)
  "Call FUNCTION with what of this chat's context the model doesn't have.
It gets conses of item and excerpt, and sentences on what is missing.  It may
be called before this returns."
  (let* ((chat (current-buffer))
         (items agent-q-attach--all)
         (left (length items))
         (found nil) (problems nil))
    (cl-flet ((done (item excerpt problem)
                (when (buffer-live-p chat)
                  (when excerpt
                    (setf (agent-q-attach-item-content item) (agent-q-attach-kinds-excerpt-text excerpt))
                    (unless (equal (agent-q-attach-kinds-excerpt-text excerpt) (agent-q-attach-item-sent item))
                      (push (cons item excerpt) found)))
                  (when problem (push problem problems))
                  (when (zerop (cl-decf left))
                    (with-current-buffer chat
                      (funcall function
                               (sort found (lambda (one other)
                                             (< (seq-position items (car one))
                                                (seq-position items (car other)))))
                               (nreverse problems)))))))
      (if (null items)
          (funcall function nil nil)
        (dolist (item items)
          (if (agent-q-attach-item-mention item)
              (agent-q-attach-mention-fetch-all
               (agent-q-attach-mention-find (agent-q-attach-item-mention item))
               (lambda (excerpts problem) (done item (car excerpts) problem)))
            (done item (agent-q-attach--excerpt item) nil)))))))

(defun agent-q-attach-note-sent (pairs excerpts)
  "Note that EXCERPTS were attached to a message, and PAIRS of item and excerpt."
  (pcase-dolist (`(,item . ,excerpt) pairs)
    (setf (agent-q-attach-item-sent item) (agent-q-attach-kinds-excerpt-text excerpt)))
  (dolist (excerpt excerpts)
    (push (cons (current-time) excerpt) agent-q-attach-sent))
  (run-hooks 'agent-q-attach-changed-hook))

(defun agent-q-attach-forget-sent ()
  "Have all items of this chat sent again, as the model may not have them any more."
  (dolist (item agent-q-attach--all)
    (setf (agent-q-attach-item-sent item) nil))
  (run-hooks 'agent-q-attach-changed-hook))

(provide 'agent-q-attach)
;;; agent-q-attach.el ends here
