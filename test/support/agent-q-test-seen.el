;;; agent-q-test-seen.el --- What a model sees of the tools  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Plays a turn in which a scripted model calls every tool on a fixture project
;; in a fresh image, and takes what the model was sent from the requests that its
;; server got: schemas, system prompt, results.  What differs from machine to
;; machine is replaced by a word.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-files)
(require 'agent-q-test-image)
(require 'agent-q-test-tools)
(require 'agent-q-json)

(defconst agent-q-test-seen-directory
  (expand-file-name "test/fixtures/seen/" agent-q-test-root)
  "Where the golden files are, and what they are made from.")

(defun agent-q-test-seen-calls ()
  "Return what the model calls: lists of a tool and its arguments, an alist."
  (with-temp-buffer
    (insert-file-contents (expand-file-name "calls.eld" agent-q-test-seen-directory))
    (read (current-buffer))))

;;;; The turns

(defun agent-q-test-seen--script (calls)
  "Return the script of a model that makes CALLS, one a request, and is content."
  (json-encode
   `((turns . [,@(seq-mapcat (lambda (call)
                               `(((steps . [((tool_calls
                                              . [((name . ,(car call))
                                                  (arguments . ,(or (cdr call)
                                                                    (make-hash-table))))]))]))
                                 ;; The helper's answer.
                                 ,@(and (equal (car call) "research")
                                        '(((steps . [((text . "In src/account.lisp."))]))))))
                             calls)
               ((steps . [((text . "Done."))]))]))))

(defun agent-q-test-seen--request (&optional text)
  "Return the body of the last request that the model got, or of one with TEXT."
  (with-temp-buffer
    (insert-file-contents agent-q-test-requests)
    (if text (search-forward text) (goto-char (point-max)))
    (forward-line (if text 0 -1))
    (gethash "body" (agent-q-json-parse
                     (buffer-substring (point) (line-end-position))))))

(defun agent-q-test-seen--turn (connection calls &optional text)
  "Have a model make CALLS in a chat about CONNECTION; return its last request.
With TEXT, return the first one that has it."
  (agent-q-test-with-model (agent-q-test-seen--script calls)
    (agent-q-test-with-chat
      (agent-q-chat-set-connection connection)
      (let ((agent-q-max-iterations (+ 3 (length calls)))
            (agent-q-test-patience 120))
        (agent-q-test-files--listen)
        (agent-q-test-ask "Have a look around."))
      (agent-q-test-seen--request text))))

(defmacro agent-q-test-seen--in-project (&rest body)
  "Evaluate BODY about a copy of the fixture project, with a buffer on a file of it."
  (declare (indent 0) (debug t))
  `(let* ((agent-q-project-root
           (file-name-as-directory
            (file-truename (make-temp-file
                            (expand-file-name "seen" agent-q-test-directory) t))))
          (default-directory agent-q-project-root)
          (kept (buffer-list)))
     (copy-directory (expand-file-name "project/" agent-q-test-seen-directory)
                     agent-q-project-root nil nil t)
     (unwind-protect
         (save-window-excursion
           (switch-to-buffer (find-file-noselect
                              (expand-file-name "src/account.lisp" agent-q-project-root)))
           (lisp-mode)
           (goto-char (point-min))
           (search-forward "(defmethod deposit")
           ,@body)
       (dolist (buffer (buffer-list))
         (unless (memq buffer kept)
           (with-current-buffer buffer (set-buffer-modified-p nil))
           (kill-buffer buffer))))))

(defun agent-q-test-seen-collect (connection)
  "Return what a model sees of CONNECTION's image: an alist of file names and texts."
  (agent-q-test-tools-choose connection)
  (agent-q-test-seen--in-project
    (agent-q-test-image-directly
     connection (format "(progn (require \"asdf\")
                           (push %S (symbol-value (find-symbol \"*CENTRAL-REGISTRY*\" \"ASDF\"))))"
                        agent-q-project-root))
    (let* ((usual (agent-q-test-seen--turn connection '()))
           (calls (agent-q-test-seen-calls))
           (all (let ((agent-q-offered-tools 'all))
                  (agent-q-test-seen--turn connection calls)))
           (helper (agent-q-test-seen--turn connection (list (assoc "research" calls))
                                            "You look into one question"))
           (replacements (agent-q-test-seen--replacements connection)))
      (mapcar (pcase-lambda (`(,file . ,text))
                (cons file (agent-q-test-seen--replaced text replacements)))
              `(("prompt.md" . ,(agent-q-test-seen--prompt usual))
                ("research.md" . ,(concat (agent-q-test-seen--prompt helper) "\n"
                                          (agent-q-test-seen--offer helper)))
                ("offer.txt" . ,(agent-q-test-seen--offer usual))
                ("schemas.json" . ,(agent-q-test-seen--schemas all))
                ,@(agent-q-test-seen--results calls all))))))

;;;; What is made of the requests

(defun agent-q-test-seen--contents (request role)
  "Return the contents of the messages of ROLE in REQUEST."
  (mapcar (lambda (message) (gethash "content" message))
          (seq-filter (lambda (message) (equal role (gethash "role" message)))
                      (gethash "messages" request))))

(defun agent-q-test-seen--prompt (request)
  "Return the system prompt and the user's message in REQUEST."
  (mapconcat (lambda (role)
               (format "<!-- %s -->\n%s\n" role
                       (string-join (agent-q-test-seen--contents request role) "\n")))
             '("system" "user") "\n"))

(defun agent-q-test-seen--offer (request)
  "Return the names of the tools in REQUEST, each with the characters that it costs."
  (let ((tools (append (gethash "tools" request) nil))
        (size (lambda (value) (length (agent-q-json-serialize value))))
        (prompt (length (car (agent-q-test-seen--contents request "system")))))
    (format "%6d system prompt\n%6d schemas of %d tools\n%6d together\n\n%s"
            prompt (funcall size (vconcat tools)) (length tools)
            (+ prompt (funcall size (vconcat tools)))
            (mapconcat (lambda (tool)
                         (format "%6d %s\n" (funcall size tool)
                                 (gethash "name" (gethash "function" tool))))
                       tools ""))))

(defun agent-q-test-seen--schemas (request)
  "Return the schemas in REQUEST, readably."
  (with-temp-buffer
    (insert (agent-q-json-serialize (gethash "tools" request)))
    (let ((json-encoding-default-indentation "  "))
      (json-pretty-print-buffer))
    (concat (buffer-string) "\n")))

(defun agent-q-test-seen--results (calls request)
  "Return by file what REQUEST says came of CALLS: a file for each tool."
  (let ((files nil))
    (cl-loop for (tool . arguments) in calls
             for result in (agent-q-test-seen--contents request "tool")
             for file = (format "results/%s.txt" tool)
             for text = (format ">>> %s\n%s\n" (json-encode arguments) result)
             do (setf (alist-get file files nil nil #'equal)
                      (concat (alist-get file files nil nil #'equal) text)))
    (nreverse files)))

;;;; What differs from machine to machine

(defun agent-q-test-seen--replacements (connection)
  "Return regexps for what is CONNECTION's or this machine's own, with what stands for it."
  (let ((version (read (agent-q-test-image-directly connection
                                                    "(lisp-implementation-version)")))
        (here (directory-file-name agent-q-project-root)))
    `((,(regexp-quote (concat here "/")) . "/project/")
      (,(regexp-quote here) . "/project")
      (,(regexp-quote (file-name-nondirectory here)) . "project")
      (,(regexp-quote (directory-file-name agent-q-test-root)) . "/agent-q")
      (,(regexp-quote version) . "VERSION")
      (,(regexp-quote (directory-file-name (expand-file-name "~/"))) . "~")
      ("data-[0-9a-f]\\{8\\}" . "data-MARK")
      ("{[0-9A-F]\\{6,\\}}" . "{ADDRESS}")
      ("#x[0-9A-F]\\{6,\\}" . "#xADDRESS")
      ("^\\(threads\\|features\\)\\b.*" . "\\1: LIST")
      ;; Machine code.
      ("^ *[0-9A-F]\\{3,\\}:.*\n\\(?: \\{30,\\};.*\n\\)*" . "")
      ("^disassembly for .*\n\\|^Size: .*\n\\|^[0-9]+ more: call again with offset.*\n" . "")
      ("[0-9]+ bytes\\|[0-9]+ lines:" . "SIZE")
      ("memory: [0-9]+ MB" . "memory: SIZE")
      ("[0-9]+ packages" . "COUNT packages")
      ("tid=[0-9]+ " . "")
      ("\\(#:[A-Z]+\\)[0-9]+" . "\\1N")
      ("\\b[0-9]+\\(?:\\.[0-9]+\\)? \\(?:ms\\|s\\|min\\)\\( ago\\)?\\b" . "TIME\\1")
      ("[0-9]\\{4\\}-[0-9][0-9]-[0-9][0-9]\\(?:[ T][0-9:]+\\)?" . "DATE"))))

(defun agent-q-test-seen--replaced (text replacements)
  "Return TEXT with REPLACEMENTS made."
  (let ((case-fold-search nil))
    (pcase-dolist (`(,regexp . ,word) replacements text)
      (setq text (replace-regexp-in-string regexp word text t)))))

(provide 'agent-q-test-seen)
;;; agent-q-test-seen.el ends here
