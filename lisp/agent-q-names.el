;;; agent-q-names.el --- Names, places and values in a chat, and where they lead  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; What is under point in a chat, and what the user's own client can do with it: the definition, the
;; description and the arguments of a symbol, in code, in prose and in calls; files and lines; values;
;; errors.  Names in prose are looked up in the image, while they are on the screen.
;; agent-q-live.el finds the others in texts.

;;; Code:

(require 'agent-q-connection)
(require 'agent-q-code-highlight)
(require 'agent-q-debugger)
(require 'agent-q-image)
(require 'agent-q-image-source)
(require 'agent-q-live)
(require 'agent-q-markdown)
(require 'agent-q-module)
(require 'agent-q-prompt)
(require 'agent-q-session)
(require 'agent-q-text)
(require 'lisp-mode)
(require 'seq)
(require 'subr-x)
(require 'text-property-search)

(defcustom agent-q-names-look-up t
  "Whether the chat's image is asked about names in answers.
Those that it knows get the colour of what they are, and lead to their
definitions; *words* that it doesn't know are emphasized.  Only names on the
screen are looked up, and nothing of the program runs for that."
  :type 'boolean
  :group 'agent-q
  :package-version '(agent-q-module . "0.1.0"))

;;;; The symbol at point

(defconst agent-q-names--constituents "^][ \t\n()\"';`,|"
  "The characters of symbols, for `skip-chars-forward'.")

(defconst agent-q-names--reach 10000
  "Most characters before point at which the list around it may begin.")

(defun agent-q-names-code-p (place)
  "Whether PLACE is in Lisp code of an answer, or in the form of a call."
  (and (< (point-min) place (point-max))
       (or (get-text-property place 'agent-q-form)
           (let ((language (and (get-text-property place 'agent-q-code)
                                (get-text-property place 'agent-q-language))))
             (and language (eq 'lisp-mode (cdr (assoc language agent-q-code-highlight-modes))))))))

(defun agent-q-names-code-end (start)
  "Return where the code at START ends."
  (next-single-property-change start 'agent-q-language nil (point-max)))

(defun agent-q-names--code-start (place)
  "Return where the code at PLACE begins."
  (previous-single-property-change (min (1+ place) (point-max))
                                   'agent-q-language nil (point-min)))

(defun agent-q-names--field ()
  "Return the bounds of what a symbol at point can't go beyond."
  (cond ((agent-q-names-code-p (point))
         (cons (agent-q-names--code-start (point)) (agent-q-names-code-end (point))))
        ((get-text-property (point) 'agent-q-word)
         (cons (previous-single-property-change (1+ (point)) 'agent-q-word nil (point-min))
               (next-single-property-change (point) 'agent-q-word nil (point-max))))
        (t (cons (line-beginning-position) (line-end-position)))))

(defun agent-q-names--bounds ()
  "Return the bounds of the symbol at point; they are equal where there is none."
  (pcase-let ((`(,first . ,last) (agent-q-names--field)))
    (save-excursion
      (let ((end (progn (skip-chars-forward agent-q-names--constituents last) (point))))
        (skip-chars-backward agent-q-names--constituents first)
        ;; A sharp sign belongs to #' and #:, and to no symbol's beginning.
        (skip-chars-forward "#" end)
        (let ((start (point)))
          (unless (agent-q-names-code-p start)
            (goto-char end)
            (skip-chars-backward ".:?!…" start)
            (setq end (point)))
          (cons start end))))))

(defun agent-q-names-symbol ()
  "Return the symbol at point, or nil."
  (pcase-let ((`(,start . ,end) (agent-q-names--bounds)))
    (and (< start end) (buffer-substring-no-properties start end))))

(defun agent-q-names--operator ()
  "Return the operator of the innermost list around point in Lisp code, or nil.
What begins far above is not looked for."
  (let ((list (with-syntax-table lisp-mode-syntax-table
                (nth 1 (parse-partial-sexp
                        (max (agent-q-names--code-start (point))
                             (- (point) agent-q-names--reach))
                        (point))))))
    (when list
      (save-excursion
        (goto-char (1+ list))
        (and (agent-q-names-code-p (point)) (agent-q-names-symbol))))))

(defun agent-q-names--package ()
  "Return the package of what is at point.
It is what this answer has entered before point, else the one of the REPL."
  (let ((turn (or (previous-single-property-change (point) 'agent-q-turn) (point-min)))
        (case-fold-search t)
        (found nil))
    (save-excursion
      (while (and agent-q-session-chat-p (not found)
                  (re-search-backward agent-q-session-user-in-package turn t))
        (agent-q-markdown-dress (match-beginning 1))
        (when (agent-q-names-code-p (match-beginning 1))
          (setq found (upcase (match-string-no-properties 1))))))
    (or found (agent-q-connection-repl-package agent-q-session-connection))))

(defun agent-q-names-also ()
  "Return the package of the Lisp source that the user last worked in, in a list."
  (when-let* ((buffer (agent-q-session-user-last-buffer
                       (lambda (buffer)
                         (with-current-buffer buffer (derived-mode-p 'lisp-mode)))))
              (package (with-current-buffer buffer (agent-q-session-user-package))))
    (list package)))

;;;; Asking the image

(defconst agent-q-names--patience 1.0
  "Seconds that a command waits for the image.")

(defun agent-q-names--connection ()
  "Return the connection to the image of this chat, or signal that there is none."
  (if (agent-q-connection-live-p agent-q-session-connection) agent-q-session-connection
    (user-error "No Lisp image is connected")))

(defun agent-q-names--free-p ()
  "Whether the image of this chat can be asked beside what it does."
  (let ((connection agent-q-session-connection))
    (and (agent-q-connection-live-p connection)
         (or (agent-q-connection-ask connection :threads-p)
             (null (agent-q-connection-ask connection :requests))))))

(defun agent-q-names--await (ask)
  "Call ASK with a function, and return what that is called with, soon.
The value is nil when it isn't called in time, or when a key is pressed."
  (let ((end (+ (float-time) agent-q-names--patience))
        (answer nil) (answered nil))
    (funcall ask (lambda (value &rest _) (setq answer value answered t)))
    (while (not (or answered (input-pending-p) (< end (float-time))))
      (accept-process-output nil 0.02))
    answer))

(defun agent-q-names--ask-known (names package function)
  "Ask the image which of NAMES, read in PACKAGE, it knows, and call FUNCTION.
It gets a list with, for each, nil or a list of its kind and its name for
CL-USER; or nil without an answer."
  (agent-q-image-query
   (agent-q-names--connection) "known-names"
   (list :names names :package package :also (agent-q-names-also))
   (lambda (reply &rest _)
     (funcall function (pcase reply
                         (`(:outcome :returned :value ,value . ,_) (plist-get value :known)))))))

(defun agent-q-names--seen ()
  "Return the place on which the cursor is shown: hidden markup may be at point."
  (let ((place (point)))
    (while (and (< place (point-max)) (invisible-p place))
      (setq place (next-single-char-property-change place 'invisible)))
    place))

(defun agent-q-names--thing ()
  "Return what is alive at point, or the definition that this row of a list has."
  (or (get-text-property (agent-q-names--seen) 'agent-q-live)
      (and (derived-mode-p 'tabulated-list-mode)
           (save-excursion
             (beginning-of-line)
             (when-let* ((match (text-property-search-forward
                                 'agent-q-live 'name (lambda (kind thing) (eq kind (car thing)))))
                         ((<= (prop-match-beginning match) (line-end-position))))
               (prop-match-value match))))))

(defun agent-q-names--meant (key)
  "Return the symbol at point and its package, as the client is to read it for KEY.
Where the image knows it by another package, that is the one that is meant."
  (let ((known (agent-q-names--thing)))
    (if (eq (car known) 'name)
        (list (cadr known) "COMMON-LISP-USER")
      (agent-q-names--connection)
      (let* ((name (or (save-excursion (goto-char (agent-q-names--seen)) (agent-q-names-symbol))
                       (user-error "No symbol at point")))
             (package (agent-q-names--package))
             (found (and (agent-q-names--free-p)
                         (agent-q-names--await
                          (lambda (function) (agent-q-names--ask-known (list name) package function))))))
        (cond ((car found) (list (cadr (car found)) "COMMON-LISP-USER"))
              ;; SLY opens its debugger where it is to describe what isn't there.
              ((and found (or (eq key :describe) (not (agent-q-names-code-p (point)))))
               (user-error "The image knows no %s" name))
              (t (list name package)))))))

(defun agent-q-names--do (key)
  "Have the client do KEY with the symbol at point, and show its errors."
  (let ((meant (agent-q-names--meant key)))
    (condition-case failure
        (apply #'agent-q-connection-ask (agent-q-names--connection) key meant)
      (error (user-error "%s" (error-message-string failure))))))

;;;; Commands

(defun agent-q-names-find-definition ()
  "Go to the definition of the symbol at point, or to the place in a file there."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (if (memq (car (agent-q-names--thing)) '(place value error restart kept connect))
      (agent-q-names-follow)
    (agent-q-names--do :edit-definition)))

(defun agent-q-names-describe ()
  "Describe the symbol at point."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (agent-q-names--do :describe))

(defun agent-q-names-follow ()
  "Go to what is at point: a place, a value, an error or a definition."
  (declare (completion agent-q-session-command-p))
  (interactive)
  (pcase (get-text-property (point) 'agent-q-live)
    (`(place ,file ,line ,column) (agent-q-names--visit file line column))
    (`(value ,handle) (agent-q-names--inspect handle))
    (`(error ,name) (agent-q-debugger-hand-over name))
    (`(kept ,call) (agent-q-debugger-open-kept call))
    (`(restart ,name ,number) (agent-q-debugger-take-restart name number))
    ('(connect) (agent-q-names--connect))
    (`(name . ,_) (agent-q-names--do :edit-definition))
    (_ (user-error "Nothing here leads anywhere"))))

(defun agent-q-names-follow-written ()
  "Go to the place that is written at point; return nil if there is none.
Prose is alive only where it names files that were there when it was drawn."
  (pcase (agent-q-live-place-at-point)
    (`(place ,file ,line ,column) (agent-q-names--visit file line column) t)))

(defun agent-q-names--connect ()
  "Connect this chat to an image; start one where there is none."
  (if (agent-q-connection-connections)
      ;; The file with this command stands on this one.
      (call-interactively (intern "agent-q-set-image"))
    (let ((clients (agent-q-connection-installed)))
      (unless clients
        (user-error "Neither SLY nor SLIME is installed"))
      (call-interactively
       (if (null (cdr clients)) (car clients)
         (intern (completing-read "Start a Lisp with: " clients nil t nil nil
                                  (symbol-name (car clients)))))))))

(defun agent-q-names-follow-mouse (event)
  "Go to what EVENT clicked on."
  (declare (completion agent-q-session-command-p))
  (interactive "e")
  (mouse-set-point event)
  (agent-q-names-follow))

(defun agent-q-names--file (name)
  "Return the file named NAME in a text of this chat, or nil.
Nothing is asked of other machines."
  (let* ((root (or agent-q-session-root default-directory))
         (file (cond ((not (file-name-absolute-p name)) (expand-file-name name root))
                     ((agent-q-connection-live-p agent-q-session-connection)
                      (agent-q-image-source-file-here agent-q-session-connection name))
                     ((not (file-remote-p name)) (expand-file-name name)))))
    (and file (or (file-remote-p file) (file-regular-p file)) file)))

(defun agent-q-names--visit (name line column)
  "Go to LINE and COLUMN of the file named NAME in a text of this chat."
  (agent-q-markdown-link-go
   (or (agent-q-names--file name)
       (user-error "There is no file %s" (agent-q-text-visible-line name)))
   line)
  (when column
    (move-to-column (1- column))))

(defun agent-q-names--inspect (handle)
  "Open the client's inspector on the value that has HANDLE."
  (let ((connection (agent-q-names--connection)))
    (agent-q-image-query
     connection "inspect-value" (list :handle handle :limit 1 :watch '(:look t))
     (lambda (reply _status payload)
       (pcase reply
         (`(:outcome :returned . ,_)
          (agent-q-connection-ask
           connection :inspect
           (format "(cl:funcall (cl:find-symbol \"HANDLE-OBJECT\" \"AGENT-Q-IMAGE\") \"%s\")" handle)))
         (_ (message "%s" (or (plist-get reply :message) payload))))))))

;;;;; Keys

(define-key agent-q-live-map (kbd "RET") #'agent-q-names-follow)
(define-key agent-q-live-map [mouse-2] #'agent-q-names-follow-mouse)

(defvar agent-q-names-describe-map
  (let ((map (make-sparse-keymap)))
    (define-key map "d" #'agent-q-names-describe)
    (define-key map (kbd "C-d") #'agent-q-names-describe)
    map)
  "Keymap of what describes the symbol at point.")

(defun agent-q-names-define-keys (map)
  "Give MAP the keys on what is at point, which are those of a source buffer."
  (define-key map [remap xref-find-definitions] #'agent-q-names-find-definition)
  (define-key map (kbd "C-c C-d") agent-q-names-describe-map))

;;;;; In lists

(defvar agent-q-names--cell-map
  (let ((map (make-sparse-keymap)))
    (define-key map [follow-link] 'mouse-face)
    (define-key map [mouse-2] #'agent-q-names-follow-mouse)
    map)
  "Keymap on names and places in lists, where RET is about the row.")

(defun agent-q-names-cell (text)
  "Return TEXT, of a list, with the name of a definition at its beginning alive."
  (let ((text (copy-sequence text)))
    (when (string-match "\\`(?\\(?:[Ss][Ee][Tt][Ff] +\\)?\\([^][ \t\n()\"';`,|]+\\)" text)
      (agent-q-live-put 0 (length text) (list 'name (match-string 1 text)) text))
    (agent-q-live-put-keymap text agent-q-names--cell-map)))

(defun agent-q-names-places-cell (text)
  "Return TEXT, of a list, with the places, values and errors in it alive."
  (agent-q-live-put-keymap (agent-q-live-mark (copy-sequence text)) agent-q-names--cell-map))

;;;;; In pages

(defun agent-q-names-enliven-page (name)
  "Make places, values and names in the page NAME lead where they do from here.
It has the keys of lists, and RET goes to places, values and errors."
  (let ((connection agent-q-session-connection) (root agent-q-session-root))
    (with-current-buffer name
      (setq agent-q-session-connection connection
            agent-q-session-root root)
      (with-silent-modifications
        (agent-q-live-mark-here (point-min) (point-max) #'agent-q-names--file))
      (use-local-map (make-composed-keymap nil (current-local-map)))
      (agent-q-names-define-keys (current-local-map)))))

;;;; ElDoc

(defun agent-q-names--request (function arguments continuation)
  "Call FUNCTION, a name, of the client's server with ARGUMENTS, strings.
CONTINUATION gets its value, or nil."
  (agent-q-connection-ask
   agent-q-session-connection :rex
   `(cl:ignore-errors
     (cl:funcall (cl:find-symbol ,function
                                 ,(substring (upcase (symbol-name
                                                      (agent-q-connection-client-get
                                                       agent-q-session-connection :wire)))
                                             1))
                 ,@arguments))
   t
   (lambda (result)
     (funcall continuation (pcase result (`(:ok ,value) value))))))

(defun agent-q-names-eldoc (callback)
  "Hand CALLBACK the arguments of the operator at point.
For `eldoc-documentation-functions'."
  (when (agent-q-names--free-p)
    (pcase-let ((`(,operator ,package)
                 (if (agent-q-names-code-p (point))
                     (list (agent-q-names--operator) (agent-q-names--package))
                   (pcase (get-text-property (point) 'agent-q-live)
                     (`(name ,name) (list name "COMMON-LISP-USER"))))))
      (when operator
        (agent-q-names--request
         "OPERATOR-ARGLIST" (list operator package)
         (lambda (arguments)
           (when (stringp arguments)
             (funcall callback (replace-regexp-in-string "[ \t\n]+" " " arguments)))))
        ;; It comes later.
        t))))

;;;; Completion at the prompt

(defun agent-q-names--word-p (start end)
  "Whether the text from START to END is to be completed as a symbol.
A word that looks like any other is, when the user asks for it."
  (and (< start end)
       (or (memq (char-before start) '(?\( ?' ?`))
           (string-match-p "[-:*+%&]" (buffer-substring-no-properties start end))
           (and (memq this-command '(completion-at-point agent-q-chat-view-tab complete-symbol))
                (< 1 (- end start))))))

(defun agent-q-names-complete ()
  "Complete the Lisp symbol at the prompt.
For `completion-at-point-functions'."
  (when (and (agent-q-prompt-p) (agent-q-names--free-p))
    (let ((end (point))
          (start (save-excursion
                   (skip-chars-backward agent-q-names--constituents agent-q-prompt-start)
                   (skip-chars-forward "#" (point-max))
                   (point))))
      (when (agent-q-names--word-p start end)
        (when-let ((names (agent-q-names--completions
                           (buffer-substring-no-properties start end))))
          (list start end names :exclusive 'no))))))

(defun agent-q-names--completions (text)
  "Return the names of symbols that begin with TEXT, as the client has them."
  (pcase (agent-q-names--await
          (lambda (function)
            (agent-q-names--request
             "SIMPLE-COMPLETIONS"
             (list text (or (agent-q-connection-repl-package agent-q-session-connection)
                            "COMMON-LISP-USER"))
             function)))
    (`(,(and names (pred listp)) . ,_) (seq-filter #'stringp names))))

;;;; Names in prose, on the screen

(defconst agent-q-names--delay 0.3
  "Seconds after a change or a scroll before what is on the screen is looked at.")

(defconst agent-q-names--most 200
  "Most names that the image is asked about at once.")

(defconst agent-q-names--above 300
  "Most characters before the screen that are searched for places.")

(defconst agent-q-names--kept 5000
  "Most names that a chat remembers.")

(defvar-local agent-q-names--known nil
  "What the image said of names: by name, a list of kind and name, or `unknown'.")

(defvar-local agent-q-names--ground nil
  "The image and the package that this is true for.")

(defvar-local agent-q-names--timer nil
  "The timer that looks at what is on the screen, or nil.")

(defun agent-q-names-setup ()
  "Keep what is on the screen of this chat marked."
  (add-hook 'window-scroll-functions #'agent-q-names--scrolled nil t)
  (add-hook 'kill-buffer-hook #'agent-q-names--stop nil t))

(defun agent-q-names--stop ()
  "Let nothing be looked at any more."
  (when (timerp agent-q-names--timer)
    (cancel-timer agent-q-names--timer)))

(defun agent-q-names--scrolled (window _start)
  "Look soon at WINDOW.
For `window-scroll-functions'."
  (with-current-buffer (window-buffer window)
    (agent-q-names-later)))

(defun agent-q-names-later ()
  "Look soon at what this chat has on the screen."
  (unless agent-q-names--timer
    (setq agent-q-names--timer
          (run-at-time agent-q-names--delay nil #'agent-q-names--look (current-buffer)))))

(defun agent-q-names-learn ()
  "Ask again about names that the image didn't know: it may know them now."
  (when agent-q-names--known
    (maphash (lambda (name known)
               (when (eq known 'unknown)
                 (remhash name agent-q-names--known)))
             agent-q-names--known))
  (agent-q-names-later))

(defun agent-q-names--look (chat)
  "Mark what is alive on the screen in the buffer CHAT."
  (when (buffer-live-p chat)
    (with-current-buffer chat
      (setq agent-q-names--timer nil)
      (agent-q-module-log-call "Marking names" #'agent-q-names--mark-all))))

(defun agent-q-names--mark-all ()
  "Mark what is alive in the windows of this chat; ask about unknown names."
  (let ((open nil))
    (dolist (window (get-buffer-window-list nil nil t))
      (let ((start (window-start window)) (end (min (window-end window) agent-q-prompt-start)))
        (when (< start end)
          (with-silent-modifications
            (save-excursion
              (save-match-data
                (agent-q-names--mark-prose start end)
                (setq open (append (agent-q-names--mark-names start end) open))))))))
    (when (and open (agent-q-names--may-ask-p))
      (agent-q-names--ask (seq-take (delete-dups open) agent-q-names--most)))))

(defun agent-q-names--may-ask-p ()
  "Whether the image may be asked about names on the screen."
  (and agent-q-names-look-up
       (agent-q-connection-live-p agent-q-session-connection)
       ;; Where calls queue up, the user's own would wait for this.
       (agent-q-connection-ask agent-q-session-connection :threads-p)))

(defun agent-q-names--mark-prose (start end)
  "Mark places, values and errors from START to END, but no items."
  (goto-char start)
  ;; A place may begin above, but a message can be one line of megabytes.
  (goto-char (max (- start agent-q-names--above) (line-beginning-position)))
  (while (< (point) end)
    (let ((next (min end (or (next-single-property-change (point) 'agent-q-item) end))))
      (unless (get-text-property (point) 'agent-q-item)
        (agent-q-live-mark-here (point) next #'agent-q-names--file))
      (goto-char next))))

(defun agent-q-names--mark-names (start end)
  "Mark the known names in prose from START to END; return those not asked about."
  (agent-q-names--keep-ground)
  (let ((open nil) (place start))
    (while (and place (< place end))
      (let ((next (next-single-property-change place 'agent-q-word nil end)))
        (when (memq (get-text-property place 'agent-q-word) '(code starred))
          (pcase-let ((`(,name . ,(and bounds `(,from . ,to))) (agent-q-names--in-word place next)))
            (pcase (and bounds (gethash name agent-q-names--known))
              ('nil (when bounds (push name open)))
              ('unknown (when (eq 'starred (get-text-property place 'agent-q-word))
                          (agent-q-names--emphasize place next)))
              (`(,kind ,full) (agent-q-names--put from to kind full)))))
        (setq place next)))
    open))

(defun agent-q-names--in-word (start end)
  "Return the symbol in the word from START to END and its bounds, or nil.
That is all of the word, or the operator of a form."
  (let ((text (buffer-substring-no-properties start end)))
    (when (and (< (length text) 200)
               (string-match "\\`\\(?:#?'\\|(\\)?\\([^][ \t\n()\"';`,|#]+\\)\\(?:\\'\\|[ \t\n)]\\)" text)
               (or (= (match-end 1) (length text)) (eq ?\( (aref text 0)))
               (string-match-p "[[:alpha:]]" (match-string 1 text)))
      (let ((name (match-string 1 text)))
        (string-match (regexp-quote name) text)
        (cons name (cons (+ start (match-beginning 0)) (+ start (match-end 0))))))))

(defun agent-q-names--put (start end kind name)
  "Show that what is from START to END is NAME in the image, a KIND of thing."
  (unless (get-text-property start 'agent-q-live)
    (agent-q-live-put start end (list 'name name) nil
                      (format "%s %s" (substring (symbol-name kind) 1) name))
    (add-face-text-property start end
                            (pcase kind
                              (:macro 'font-lock-keyword-face)
                              (:class 'font-lock-type-face)
                              (:variable 'font-lock-variable-name-face)
                              (_ 'font-lock-function-name-face)))))

(defun agent-q-names--emphasize (start end)
  "Emphasize what is from START to END; its stars are markup."
  (when (< (+ start 2) end)
    (put-text-property start end 'agent-q-word 'emphasis)
    (add-face-text-property (1+ start) (1- end) 'agent-q-emphasis)
    (dolist (star (list start (1- end)))
      (add-face-text-property star (1+ star) 'agent-q-markup)
      (put-text-property star (1+ star) 'invisible 'agent-q-markup))))

(defun agent-q-names--keep-ground ()
  "Forget what was known in another image or package."
  (let ((ground (cons agent-q-session-connection
                      (and (agent-q-connection-live-p agent-q-session-connection)
                           (agent-q-connection-repl-package agent-q-session-connection)))))
    (unless (and agent-q-names--known (equal ground agent-q-names--ground)
                 (< (hash-table-count agent-q-names--known) agent-q-names--kept))
      (setq agent-q-names--ground ground
            agent-q-names--known (make-hash-table :test #'equal)))))

(defun agent-q-names--ask (names)
  "Ask the image about NAMES, and mark those that it knows."
  (let ((chat (current-buffer)) (known agent-q-names--known))
    (agent-q-names--ask-known
     names (cdr agent-q-names--ground)
     (lambda (answer)
       (when (and answer (buffer-live-p chat))
         (seq-mapn (lambda (name found) (puthash name (or found 'unknown) known))
                   names answer)
         (with-current-buffer chat
           (agent-q-module-log-call "Marking names" #'agent-q-names--mark-all)))))))

(provide 'agent-q-names)
;;; agent-q-names.el ends here
